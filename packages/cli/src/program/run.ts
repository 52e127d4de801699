import { messageOf } from '@busbar/base';
import { type Command, CommanderError } from 'commander';
import type { CliContext } from '../context.ts';
import { CliError } from '../errors.ts';
import { createProgram } from './program.ts';

/** Runs one command line and answers its exit code. Every error becomes a sentence on the terminal. */
export async function runCli(
  context: CliContext,
  args: readonly string[],
  version: string,
  cwd: string,
): Promise<number> {
  const { terminal } = context;
  let exitCode = 0;
  const program = createProgram(context, version, cwd, (code) => {
    exitCode = code;
  });
  prepare(program, context);
  if (args.length === 0) {
    program.outputHelp();
    return 0;
  }
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    terminal.errorLine(terminal.paint('red', `busbar: ${messageOf(error)}`));
    if (error instanceof CliError) return error.exitCode;
    if (error instanceof Error && error.stack !== undefined) terminal.errorLine(error.stack);
    return 1;
  }
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

function prepare(command: Command, context: CliContext): void {
  const { terminal } = context;
  command.exitOverride();
  command.showHelpAfterError(`Help: ${pathOf(command)} --help`);
  command.configureOutput({
    writeOut: (text) => terminal.write(text),
    writeErr: (text) => terminal.errorLine(text.trimEnd()),
  });
  for (const child of command.commands) prepare(child, context);
}
