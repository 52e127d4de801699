import { assert } from '@busbar/base';
import type { z } from 'zod';
import { ServiceError } from './errors.ts';
import { likelyVariable } from './likely-variable.ts';

const PREFIX = 'BUSBAR_';
const SHOWN_CHARS = 60;

export type Origin = 'default' | 'env';

/** A zod object whose fields are all described. */
export type ConfigSchema<Config> = z.ZodType<Config> & {
  readonly shape: Readonly<Record<string, z.ZodType>>;
};

export interface LoadedConfig<Config> {
  config: Config;
  /** Where each field's value comes from. */
  origins: Record<string, Origin>;
}

/** The environment variable of a field: `natsUrl` is `BUSBAR_NATS_URL`. */
export function variableName(field: string): string {
  return PREFIX + field.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** Read by the command alone; a shell that has them set may also start services by hand. */
const OF_THE_COMMAND: readonly string[] = ['BUSBAR_STATE_DIR'];

/**
 * Reads a configuration from `env`. An unknown variable that begins with `BUSBAR_` is a problem too, so that a typing mistake never
 * leaves a default in place unseen. Throws ServiceError SERVICE_CONFIG with one sentence a line for all problems.
 */
export function loadConfig<Config>(
  schema: ConfigSchema<Config>,
  env: Readonly<Record<string, string | undefined>>,
): LoadedConfig<Config> {
  const fields = Object.keys(schema.shape);
  const known = new Map(fields.map((name) => [variableName(name), name]));
  const problems: string[] = [];
  for (const name of Object.keys(env)) {
    if (name.startsWith(PREFIX) && !known.has(name) && !OF_THE_COMMAND.includes(name))
      problems.push(unknown(name, [...known.keys()]));
  }
  const values: Record<string, string> = {};
  const origins: Record<string, Origin> = {};
  for (const [variable, name] of known) {
    const value = env[variable];
    if (value !== undefined && value !== '') values[name] = value;
    origins[name] = name in values ? 'env' : 'default';
    assert(schema.shape[name]?.description !== undefined, `field ${name} has no description`);
  }
  const result = schema.safeParse(values);
  if (!result.success) {
    for (const issue of result.error.issues) {
      const name = String(issue.path[0]);
      problems.push(`${variableName(name)} ${issue.message}${got(values[name])}.`);
    }
  }
  if (problems.length > 0 || !result.success) {
    throw new ServiceError('SERVICE_CONFIG', problems.join('\n'));
  }
  return { config: result.data, origins };
}

/** The values for a log line: credentials in URLs and fields marked `.meta({ isSecret: true })` are hidden. */
export function redactConfig(
  schema: ConfigSchema<unknown>,
  config: object,
): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(config)) {
    const isSecret = schema.shape[name]?.meta()?.['isSecret'] === true;
    shown[name] = isSecret && value !== undefined ? '[hidden]' : withoutCredentials(value);
  }
  return shown;
}

/** Hides `user:password@` and `token@` of every URL in a text. */
export function withoutCredentials(value: unknown): unknown {
  return typeof value === 'string' ? value.replace(/:\/\/[^/@\s,]+@/g, '://[hidden]@') : value;
}

function unknown(name: string, known: string[]): string {
  const shown = name.slice(0, SHOWN_CHARS);
  const likely = likelyVariable(shown, known);
  return likely !== undefined
    ? `${shown} is not known; did you mean ${likely}?`
    : `${shown} is not known; known are ${known.join(', ')}.`;
}

function got(value: string | undefined): string {
  if (value === undefined) return '';
  const shown = String(withoutCredentials(value));
  return `, not ${JSON.stringify(shown.length > SHOWN_CHARS ? `${shown.slice(0, SHOWN_CHARS)}…` : shown)}`;
}
