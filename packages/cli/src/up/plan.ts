import { join } from 'node:path';
import type { Env } from '../context.ts';
import type { UpOptions } from './options.ts';
import type { WorkerOptions } from './pools.ts';
import { type ServiceRole, serviceEnv } from './service-env.ts';

/** One process to start. */
export interface ProcessSpec {
  role: ServiceRole;
  id: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  logFile: string;
  port?: number;
}

export interface PlanInput {
  options: UpOptions;
  namespace: string;
  natsUrl: string;
  env: Env;
  root: string;
  stateDir: string;
  /** The Node that runs this command. */
  node: string;
  /** Makes ids differ from those of another stack on the same bus. 1 to 8 of a-z and 0-9. */
  suffix: string;
}

/** Type feedback from the first call on: functions that run once a request are compiled after tens of requests, not hundreds. */
const WARM_UP = '--no-lazy-feedback-allocation';
/** The young generation of a busy process would grow by 100 MB and more; a small one costs nothing that could be measured. */
const SMALL_HEAP = '--max-semi-space-size=8';

/** Flags of V8 per role. */
const NODE_FLAGS: Readonly<Record<ServiceRole, readonly string[]>> = {
  frontend: [SMALL_HEAP, WARM_UP],
  router: [SMALL_HEAP, WARM_UP],
  decode: [],
  prefill: [],
};

/**
 * glibc gives each thread a heap of its own and keeps in it what that thread has freed, above all the one that loaded a tokenizer.
 * With two, others use it again: some 20 MiB less in most runs, and 150 in the worst (docs/benchmarks.md, Memory).
 */
const TWO_HEAPS = { MALLOC_ARENA_MAX: '2' };

/** What the C library of a role reads, unless the person has set it. */
const LIBC_ENV: Readonly<Record<ServiceRole, Readonly<Record<string, string>>>> = {
  frontend: TWO_HEAPS,
  router: {},
  // An engine would inherit it.
  decode: {},
  prefill: {},
};

/** The processes of a stack, in the order of their start. Pure: the same input gives the same plan. */
export function planProcesses(input: PlanInput): ProcessSpec[] {
  const { options } = input;
  const specs: ProcessSpec[] = [];
  for (let i = 1; i <= options.routers; i++) {
    specs.push(spec(input, 'router', i, routerSettings(options)));
  }
  for (const role of ['prefill', 'decode'] as const) {
    for (const [i, worker] of options[role].entries()) {
      specs.push(spec(input, role, i + 1, workerSettings(options, worker)));
    }
  }
  for (let i = 1; i <= options.frontends; i++) {
    const settings = {
      BUSBAR_HTTP_HOST: options.host,
      BUSBAR_HTTP_PORT: String(options.port),
      BUSBAR_HTTP_REUSE_PORT: String(options.frontends > 1),
    };
    specs.push({ ...spec(input, 'frontend', i, settings), port: options.port });
  }
  return specs;
}

type Settings = Record<string, string | number | boolean | undefined>;

function routerSettings({ policy, disaggregation }: UpOptions): Settings {
  return {
    BUSBAR_POLICY: policy,
    BUSBAR_DISAGGREGATION: disaggregation.mode,
    BUSBAR_DISAGGREGATION_THRESHOLD: disaggregation.thresholdTokens,
    BUSBAR_DISAGGREGATION_STRICT: disaggregation.isStrict || undefined,
  };
}

function workerSettings(options: UpOptions, worker: WorkerOptions): Settings {
  return {
    BUSBAR_MODEL: options.model,
    BUSBAR_MODEL_PATH: options.modelPath,
    BUSBAR_ENGINE: options.engine,
    BUSBAR_BLOCK_SIZE: options.blockSize,
    BUSBAR_CONTEXT_TOKENS: options.contextTokens,
    BUSBAR_KV_EVENTS: options.kvEvents,
    ...(worker.engine === 'mock'
      ? {
          BUSBAR_PROFILE: worker.profile,
          BUSBAR_KV_BLOCKS: worker.kvBlocks,
          BUSBAR_MOCK_SPEED: worker.speed,
          BUSBAR_KV_BYTES_PER_TOKEN: options.kvBytesPerToken,
        }
      : {
          BUSBAR_VLLM_URL: worker.url,
          CUDA_VISIBLE_DEVICES: worker.gpus,
          BUSBAR_VLLM_COMMAND: options.vllm?.command,
          BUSBAR_VLLM_ARGS: options.vllm?.args,
          BUSBAR_KV_CONNECTOR: options.vllm?.kvConnector,
        }),
  };
}

function spec(
  input: PlanInput,
  role: ServiceRole,
  position: number,
  settings: Settings,
): ProcessSpec {
  const name = `${role}-${position}`;
  const id = `${name}-${input.suffix}`;
  const decided: Record<string, string> = {};
  for (const [key, value] of Object.entries(settings)) {
    if (value !== undefined) decided[key] = String(value);
  }
  return {
    role,
    id,
    command: input.node,
    args: [...NODE_FLAGS[role], join(input.root, 'services', role, 'src', 'main.ts')],
    env: serviceEnv(withDefaults(input.env, LIBC_ENV[role]), role, {
      ...decided,
      BUSBAR_ID: id,
      BUSBAR_NATS_URL: input.natsUrl,
      BUSBAR_NAMESPACE: input.namespace,
      BUSBAR_ADMIN_PORT: '0',
    }),
    logFile: join(input.stateDir, 'logs', `${name}.log`),
  };
}

/** `env`, and of `defaults` what is not set there or empty. */
function withDefaults(env: Env, defaults: Readonly<Record<string, string>>): Env {
  const missing = Object.entries(defaults).filter(([name]) => !env[name]);
  return { ...env, ...Object.fromEntries(missing) };
}
