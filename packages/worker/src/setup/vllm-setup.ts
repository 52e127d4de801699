import { basename, resolve } from 'node:path';
import {
  createVllmEngine,
  VLLM_DEFAULTS,
  type VllmAttach,
  type VllmEngineOptions,
  type VllmSpawn,
} from '@busbar/engine';
import type { WorkerInfo } from '@busbar/protocol';
import { type ServiceContext, ServiceError, shellWords } from '@busbar/service';
import { loadTokenizer } from '@busbar/tokenizer';
import type { WorkerConfig } from '../config.ts';
import { createCard } from './card.ts';
import { readConnectorExtra } from './connector-extra.ts';
import { readModelFiles } from './model-files.ts';
import { findModelFolder } from './model-folder.ts';
import type { EngineSetup, Env } from './port.ts';
import { StartTeller } from './start-teller.ts';
import { transferAddress } from './transfer-address.ts';

/** The API has no keys and can reset caches: it is for this worker alone. */
const API_HOST = '127.0.0.1';
/** vLLM's own default: above the limit on staged KV, and no longer than needed, because the blocks stay taken for so long. */
const LEASE_MS = 30_000;
/** SIGTERM, the grace, SIGKILL and the exit. */
const STOP_MS = VLLM_DEFAULTS.stopGraceMs + 5_000;

/** The vLLM engine of a configuration: one that is started, or one that runs already. */
export async function setUpVllm(
  context: ServiceContext,
  config: WorkerConfig,
  env: Env,
): Promise<EngineSetup> {
  const folder =
    config.modelPath === undefined ? undefined : await findModelFolder(config.modelPath, env);
  // A folder without a tokenizer is told now, not after a start of minutes.
  if (folder !== undefined) await readModelFiles(folder);
  const engine = createVllmEngine(vllmOptions(context, config, env, folder));
  return {
    engine,
    describe: async (info) => {
      const name = folder ?? (await folderOf(info, config, env));
      const files = await readModelFiles(name);
      const tokenizer = await loadTokenizer({ path: files.path });
      const eosTokenIds = [...tokenizer.eosTokenIds];
      await tokenizer.close();
      return createCard(context, info, files, eosTokenIds);
    },
    stopMs: STOP_MS,
    needsProbeServer: config.kvConnector !== 'none',
  };
}

/** What the configuration means for the engine. `folder` is where the model lies, if that is known. */
export function vllmOptions(
  context: ServiceContext,
  config: WorkerConfig,
  env: Env,
  folder: string | undefined,
): VllmEngineOptions {
  const { log } = context;
  if (context.role === 'prefill' && config.kvConnector === 'none') {
    const message =
      'BUSBAR_KV_CONNECTOR none lets no KV leave a prefill worker: set nixl or mooncake, for decode workers too.';
    throw new ServiceError('SERVICE_CONFIG', message);
  }
  const teller = new StartTeller(context);
  const engine = config.vllmUrl === undefined ? spawnOf(config, env, folder) : attachOf(config);
  const model = config.model ?? (config.vllmUrl === undefined ? nameOf(config) : undefined);
  return {
    role: context.role === 'prefill' ? 'prefill' : 'decode',
    engine,
    kvEvents: config.kvEvents,
    clock: context.clock,
    startTimeoutMs: config.vllmStartSeconds * 1_000,
    onProgress: (progress) => teller.onProgress(progress),
    onWarning: (message) => log.warn({}, message),
    onLog: (line) => log.debug({ line }, 'vllm'),
    ...(model === undefined ? {} : { model }),
    ...(config.blockSize === undefined ? {} : { blockSize: config.blockSize }),
    ...(config.contextTokens === undefined ? {} : { contextTokens: config.contextTokens }),
    ...(config.kvBytesPerToken === undefined ? {} : { kvBytesPerToken: config.kvBytesPerToken }),
    ...(config.kvConnector === 'none'
      ? {}
      : {
          transfer: {
            protocol: config.kvConnector,
            host: transferAddress(config).advertisedHost,
            port: config.kvConnectorPort,
            bufferDevice: config.kvBufferDevice,
            leaseMs: LEASE_MS,
            extraConfig: readConnectorExtra(config.kvConnectorExtra),
          },
        }),
  };
}

function spawnOf(config: WorkerConfig, env: Env, folder: string | undefined): VllmSpawn {
  const { modelPath } = config;
  if (modelPath === undefined) {
    const message =
      'BUSBAR_ENGINE vllm needs BUSBAR_MODEL_PATH (a folder or a name on the hub), or BUSBAR_VLLM_URL of a vLLM that runs.';
    throw new ServiceError('SERVICE_CONFIG', message);
  }
  const command = shellWords('BUSBAR_VLLM_COMMAND', config.vllmCommand);
  if (command.length === 0) {
    throw new ServiceError('SERVICE_CONFIG', 'BUSBAR_VLLM_COMMAND names no program.');
  }
  return {
    kind: 'spawn',
    command,
    modelPath: folder === modelPath ? resolve(modelPath) : modelPath,
    host: API_HOST,
    port: config.vllmPort,
    args: shellWords('BUSBAR_VLLM_ARGS', config.vllmArgs),
    env: withoutOwn(env),
  };
}

function attachOf(config: WorkerConfig): VllmAttach {
  const { vllmUrl = '', vllmApiKey, vllmKvEvents } = config;
  const kvEventEndpoints = vllmKvEvents?.split(',').map((text) => {
    const [endpoint = '', replayEndpoint] = text.split('|');
    return replayEndpoint === undefined ? { endpoint } : { endpoint, replayEndpoint };
  });
  return {
    kind: 'attach',
    url: vllmUrl.replace(/\/+$/, ''),
    ...(vllmApiKey === undefined ? {} : { apiKey: vllmApiKey }),
    ...(kvEventEndpoints === undefined ? {} : { kvEventEndpoints }),
  };
}

/** What configures this process is not the engine's business, nor are addresses with credentials. */
function withoutOwn(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BUSBAR_')));
}

function nameOf({ modelPath }: WorkerConfig): string | undefined {
  return modelPath === undefined ? undefined : basename(modelPath);
}

/** A hub's model that the start has fetched, or the folder that an attached engine names. */
async function folderOf(info: WorkerInfo, config: WorkerConfig, env: Env): Promise<string> {
  const names = [config.modelPath, info.transfer?.revision['modelPath']];
  for (const name of names) {
    const folder = name === undefined ? undefined : await findModelFolder(name, env);
    if (folder !== undefined) return folder;
  }
  const message = `The tokenizer of ${info.model} is not on this machine; set BUSBAR_MODEL_PATH to a folder that has its tokenizer.json.`;
  throw new ServiceError('SERVICE_CONFIG', message);
}
