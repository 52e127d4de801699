import { MOCK_DEFAULTS } from '@busbar/mocker';
import type { Env } from '../context.ts';

/** The flags of `up` as the command line gives them; what was not given is absent. */
export interface UpFlags {
  engine?: string;
  prefill?: string;
  decode?: string;
  routers?: string;
  frontends?: string;
  model?: string;
  modelPath?: string;
  profile?: string;
  prefillProfile?: string;
  kvBlocks?: string;
  prefillKvBlocks?: string;
  blockSize?: string;
  kvBytesPerToken?: string;
  policy?: string;
  /** False only for `--no-kv-events`. */
  kvEvents: boolean;
  port?: string;
  host?: string;
  namespace?: string;
  contextTokens?: string;
  mockSpeed?: string;
  prefillMockSpeed?: string;
  disaggregation?: string;
  disaggregationThreshold?: string;
  disaggregationStrict?: boolean;
  vllmCommand?: string;
  vllmArgs?: string;
  vllmUrl?: string;
  vllmGpus?: string;
  kvConnector?: string;
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
  prefill: { flag: '--prefill', fallback: '0' },
  decode: { flag: '--decode', fallback: '2' },
  routers: { flag: '--routers', fallback: '1' },
  frontends: { flag: '--frontends', fallback: '1' },
  model: { flag: '--model', variable: 'BUSBAR_MODEL' },
  modelPath: { flag: '--model-path', variable: 'BUSBAR_MODEL_PATH' },
  profile: { flag: '--profile', variable: 'BUSBAR_PROFILE', fallback: MOCK_DEFAULTS.profile },
  prefillProfile: { flag: '--prefill-profile' },
  kvBlocks: {
    flag: '--kv-blocks',
    variable: 'BUSBAR_KV_BLOCKS',
    fallback: String(MOCK_DEFAULTS.kvBlocks),
  },
  prefillKvBlocks: { flag: '--prefill-kv-blocks' },
  blockSize: { flag: '--block-size', variable: 'BUSBAR_BLOCK_SIZE' },
  kvBytesPerToken: { flag: '--kv-bytes-per-token', variable: 'BUSBAR_KV_BYTES_PER_TOKEN' },
  policy: { flag: '--policy', variable: 'BUSBAR_POLICY', fallback: 'predictive' },
  port: { flag: '--port', variable: 'BUSBAR_HTTP_PORT', fallback: '8000' },
  host: { flag: '--host', variable: 'BUSBAR_HTTP_HOST', fallback: '127.0.0.1' },
  contextTokens: { flag: '--context-tokens', variable: 'BUSBAR_CONTEXT_TOKENS' },
  mockSpeed: {
    flag: '--mock-speed',
    variable: 'BUSBAR_MOCK_SPEED',
    fallback: String(MOCK_DEFAULTS.speed),
  },
  prefillMockSpeed: { flag: '--prefill-mock-speed' },
  disaggregation: {
    flag: '--disaggregation',
    variable: 'BUSBAR_DISAGGREGATION',
    fallback: 'auto',
  },
  disaggregationThreshold: {
    flag: '--disaggregation-threshold',
    variable: 'BUSBAR_DISAGGREGATION_THRESHOLD',
    fallback: '1024',
  },
  vllmCommand: { flag: '--vllm-command', variable: 'BUSBAR_VLLM_COMMAND' },
  vllmArgs: { flag: '--vllm-args', variable: 'BUSBAR_VLLM_ARGS' },
  vllmUrl: { flag: '--vllm-url', variable: 'BUSBAR_VLLM_URL' },
  vllmGpus: { flag: '--vllm-gpus' },
  kvConnector: { flag: '--kv-connector', variable: 'BUSBAR_KV_CONNECTOR' },
} as const satisfies Record<string, Setting>;

/** How long workers give vLLM to start when nothing is set; the engine's package would be slow to load for this alone. */
export const VLLM_START_SECONDS = '1800';

/** What the command takes for variables of the services that are not set. A tidy test compares it with the services' own. */
export function assumedDefaults(): Map<string, string> {
  const defaults = new Map([['BUSBAR_VLLM_START_SECONDS', VLLM_START_SECONDS]]);
  for (const { variable, fallback } of Object.values<Setting>(SETTINGS)) {
    if (variable !== undefined && fallback !== undefined) defaults.set(variable, fallback);
  }
  return defaults;
}

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

/** What the person wrote, and no default. */
export function written(name: Name, flags: UpFlags, env: Env): Given | undefined {
  const { flag, variable }: Setting = SETTINGS[name];
  const told = flags[name];
  if (told !== undefined) return { name: flag, text: told };
  const set = variable === undefined ? undefined : env[variable];
  return variable !== undefined && set ? { name: variable, text: set } : undefined;
}

/** What the flag says, else its variable (an empty one counts as unset), else the default. */
export function given(name: Defaulted, flags: UpFlags, env: Env): Given;
export function given(name: Name, flags: UpFlags, env: Env): Given | undefined;
export function given(name: Name, flags: UpFlags, env: Env): Given | undefined {
  const { flag, fallback }: Setting = SETTINGS[name];
  const told = written(name, flags, env);
  if (told !== undefined || fallback === undefined) return told;
  return { name: flag, text: fallback };
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
