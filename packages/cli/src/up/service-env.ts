import { likelyVariable } from '@busbar/service';
import type { Env } from '../context.ts';
import { CliError } from '../errors.ts';

const SERVICE_ROLES = ['frontend', 'router', 'decode', 'prefill'] as const;
export type ServiceRole = (typeof SERVICE_ROLES)[number];

const WORKER_VARIABLES = [
  'BUSBAR_MODEL',
  'BUSBAR_MODEL_PATH',
  'BUSBAR_ENGINE',
  'BUSBAR_BLOCK_SIZE',
  'BUSBAR_CONTEXT_TOKENS',
  'BUSBAR_KV_EVENTS',
  'BUSBAR_KV_BYTES_PER_TOKEN',
  'BUSBAR_TRANSFER_HOST',
  'BUSBAR_TRANSFER_PORT',
  'BUSBAR_PROFILE',
  'BUSBAR_KV_BLOCKS',
  'BUSBAR_MOCK_SPEED',
  'BUSBAR_VLLM_COMMAND',
  'BUSBAR_VLLM_ARGS',
  'BUSBAR_VLLM_PORT',
  'BUSBAR_VLLM_START_SECONDS',
  'BUSBAR_VLLM_URL',
  'BUSBAR_VLLM_API_KEY',
  'BUSBAR_VLLM_KV_EVENTS',
  'BUSBAR_KV_CONNECTOR',
  'BUSBAR_KV_CONNECTOR_PORT',
  'BUSBAR_KV_BUFFER_DEVICE',
  'BUSBAR_KV_CONNECTOR_EXTRA',
];

/** Variables that a person may set for all services, and those of one role. A tidy test compares them with the services' own. */
export const SERVICE_VARIABLES: Readonly<Record<'all' | ServiceRole, readonly string[]>> = {
  all: [
    'BUSBAR_NATS_URL',
    'BUSBAR_NAMESPACE',
    'BUSBAR_ID',
    'BUSBAR_ADMIN_HOST',
    'BUSBAR_ADMIN_PORT',
    'BUSBAR_LOG_LEVEL',
    'BUSBAR_LOG_FORMAT',
    'BUSBAR_DRAIN_MS',
  ],
  frontend: [
    'BUSBAR_HTTP_HOST',
    'BUSBAR_HTTP_PORT',
    'BUSBAR_HTTP_REUSE_PORT',
    'BUSBAR_KEEPALIVE_MS',
    'BUSBAR_TOKENIZER_THREADS',
    'BUSBAR_SCHEDULING',
  ],
  router: [
    'BUSBAR_POLICY',
    'BUSBAR_EVENT_GRACE_MS',
    'BUSBAR_QUEUE_WAIT_MS',
    'BUSBAR_DISAGGREGATION',
    'BUSBAR_DISAGGREGATION_THRESHOLD',
    'BUSBAR_DISAGGREGATION_STRICT',
    'BUSBAR_SCHEDULING',
  ],
  decode: WORKER_VARIABLES,
  prefill: WORKER_VARIABLES,
};

/** Variables that only the command itself reads. */
export const CLI_VARIABLES = ['BUSBAR_STATE_DIR'] as const;

/** Throws CLI_USAGE for a BUSBAR_ variable that nobody reads: most likely it is misspelt. */
export function checkVariables(env: Env): void {
  const known = [...CLI_VARIABLES, ...Object.values(SERVICE_VARIABLES).flat()];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('BUSBAR_') || known.includes(name)) continue;
    const likely = likelyVariable(name, known);
    throw new CliError(
      'CLI_USAGE',
      `the environment variable ${name} is not known${likely ? `; did you mean ${likely}?` : ''}`,
    );
  }
}

/**
 * The environment of one service process: everything that is not Busbar's own, the variables of this role that the person
 * set, and over them what the command decides.
 */
export function serviceEnv(
  env: Env,
  role: ServiceRole,
  decided: Readonly<Record<string, string>>,
): Record<string, string> {
  const passed = [...SERVICE_VARIABLES.all, ...SERVICE_VARIABLES[role]];
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) continue;
    if (!name.startsWith('BUSBAR_') || passed.includes(name)) result[name] = value;
  }
  return { ...result, ...decided };
}
