import type { Env } from '../context.ts';

/** The flags of `up` as the command line gives them; what was not given is absent. */
export interface UpFlags {
  engine?: string;
  decode?: string;
  routers?: string;
  frontends?: string;
  model?: string;
  modelPath?: string;
  profile?: string;
  kvBlocks?: string;
  blockSize?: string;
  policy?: string;
  /** False only for `--no-kv-events`. */
  kvEvents: boolean;
  port?: string;
  host?: string;
  namespace?: string;
  contextTokens?: string;
  mockSpeed?: string;
  detach?: boolean;
}

interface Setting {
  flag: string;
  /** The variable of the services that means the same. */
  variable?: string;
  fallback?: string;
}

/** Every setting of a stack that has a value. A variable of the services counts for `up` too: what it says is not lost. */
const SETTINGS = {
  engine: { flag: '--engine', variable: 'BUSBAR_ENGINE', fallback: 'mock' },
  decode: { flag: '--decode', fallback: '2' },
  routers: { flag: '--routers', fallback: '1' },
  frontends: { flag: '--frontends', fallback: '1' },
  model: { flag: '--model', variable: 'BUSBAR_MODEL', fallback: 'busbar-mock' },
  modelPath: { flag: '--model-path', variable: 'BUSBAR_MODEL_PATH' },
  profile: { flag: '--profile', variable: 'BUSBAR_PROFILE', fallback: 'seed-8gb' },
  kvBlocks: { flag: '--kv-blocks', variable: 'BUSBAR_KV_BLOCKS', fallback: '926' },
  blockSize: { flag: '--block-size', variable: 'BUSBAR_BLOCK_SIZE', fallback: '16' },
  policy: { flag: '--policy', variable: 'BUSBAR_POLICY', fallback: 'predictive' },
  port: { flag: '--port', variable: 'BUSBAR_HTTP_PORT', fallback: '8000' },
  host: { flag: '--host', variable: 'BUSBAR_HTTP_HOST', fallback: '127.0.0.1' },
  contextTokens: { flag: '--context-tokens', variable: 'BUSBAR_CONTEXT_TOKENS' },
  mockSpeed: { flag: '--mock-speed', variable: 'BUSBAR_MOCK_SPEED', fallback: '1' },
} as const satisfies Record<string, Setting>;

type Name = keyof typeof SETTINGS;
type Defaulted = {
  [K in Name]: (typeof SETTINGS)[K] extends { fallback: string } ? K : never;
}[Name];

/** A value and where it was written, so that an error names what the person has to change. */
export interface Given {
  /** `--policy` or `BUSBAR_POLICY`. */
  name: string;
  text: string;
}

/** What the flag says, else its variable (an empty one counts as unset), else the default. */
export function given(name: Defaulted, flags: UpFlags, env: Env): Given;
export function given(name: Name, flags: UpFlags, env: Env): Given | undefined;
export function given(name: Name, flags: UpFlags, env: Env): Given | undefined {
  const { flag, variable, fallback }: Setting = SETTINGS[name];
  const told = flags[name];
  if (told !== undefined) return { name: flag, text: told };
  const set = variable === undefined ? undefined : env[variable];
  if (variable !== undefined && set) return { name: variable, text: set };
  return fallback === undefined ? undefined : { name: flag, text: fallback };
}

/** `default: predictive; env: BUSBAR_POLICY`, for the help. */
export function origins(name: Name): string {
  const { variable, fallback }: Setting = SETTINGS[name];
  const parts = [
    fallback === undefined ? undefined : `default: ${fallback}`,
    variable === undefined ? undefined : `env: ${variable}`,
  ];
  return parts.filter((part) => part !== undefined).join('; ');
}
