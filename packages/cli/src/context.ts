import { join } from 'node:path';
import { NAMESPACE } from '@busbar/protocol';
import { CliError } from './errors.ts';
import type { Terminal } from './terminal/terminal.ts';

export type Env = Readonly<Record<string, string | undefined>>;

/** What every command gets: nothing in a command reads the process itself. */
export interface CliContext {
  readonly terminal: Terminal;
  readonly env: Env;
  /** Folder of the project: services, scripts and the default state lie below it. */
  readonly root: string;
  /** Fires when the person, or the process that started this one, wants it to end. */
  readonly signal: AbortSignal;
  /** Fires at the second request to end: waiting for running work stops. */
  readonly hurry: AbortSignal;
  /** Text from standard input up to a line end; undefined at its end. */
  readonly readLine: (prompt: string) => Promise<string | undefined>;
  readonly isInputTty: boolean;
}

/** Throws CLI_USAGE unless `name` can be a namespace. */
function checkNamespace(name: string): string {
  if (!NAMESPACE.test(name)) {
    throw new CliError(
      'CLI_USAGE',
      `"${name}" cannot be a namespace: use 1 to 32 of a-z, 0-9 and "-"`,
    );
  }
  return name;
}

/** `--namespace`, else BUSBAR_NAMESPACE, else `default`. */
export function namespaceOf(context: CliContext, flag: string | undefined): string {
  return checkNamespace(flag ?? context.env['BUSBAR_NAMESPACE'] ?? 'default');
}

/** `busbar down --namespace second`: a command as a person has to type it for this namespace. */
export function commandFor(namespace: string, command: string): string {
  return namespace === 'default' ? command : `${command} --namespace ${namespace}`;
}

/** Where the stack of a namespace keeps its state: below BUSBAR_STATE_DIR, else below `.busbar` in the project. */
export function stateDirOf(context: CliContext, namespace: string): string {
  return join(context.env['BUSBAR_STATE_DIR'] || join(context.root, '.busbar'), namespace);
}
