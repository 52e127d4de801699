import type { TransferInfo, WorkerInfo } from '@busbar/protocol';
import type { EngineFacts } from './engine-facts.ts';
import { VllmError } from './errors.ts';
import { kvBytesPerToken, readModelConfig } from './kv-bytes.ts';
import type { VllmEngineOptions, VllmTransfer } from './options.ts';
import { connectorOf, flagValue, hasFlag } from './start/serve-args.ts';

/** vLLM's own default of --max-num-seqs; no route tells it. */
const DEFAULT_MAX_RUNNING = 256;
/** Priors of the router's cost model until the first requests were measured: a model of 8 billion weights on one data-centre GPU. */
const PRIOR_PREFILL_TOKENS_PER_MS = 10;
const PRIOR_DECODE_STEP_MS = 15;
/** NIXL's own, as JSON: to name them is to say nothing. */
const DEFAULT_BACKENDS = '["UCX"]';

/** Where others reach what exchanges KV here. Bandwidth probes are answered elsewhere: NIXL's side channel speaks to engines only. */
export interface TransferPlace {
  sideChannelPort: number;
  engineId: string | undefined;
}

/** What the worker says of this engine. Rejects with VllmError when the size of its KV cannot be told. */
export async function workerInfoOf(
  options: VllmEngineOptions,
  facts: EngineFacts,
  place: TransferPlace,
): Promise<WorkerInfo> {
  const args = options.engine.kind === 'spawn' ? options.engine.args : [];
  const capacity = facts.kvBlocks * facts.blockSize;
  const hasLora = facts.loras.length > 0 || hasFlag(args, '--enable-lora');
  return {
    model: options.model ?? facts.servedName,
    role: options.role,
    engine: 'vllm',
    engineVersion: facts.version,
    blockSize: facts.blockSize,
    kvBlocks: facts.kvBlocks,
    dpRanks: facts.dpRanks,
    contextTokens: Math.min(facts.contextTokens, capacity),
    maxRunning: Number(flagValue(args, '--max-num-seqs') ?? DEFAULT_MAX_RUNNING),
    kvEvents: options.kvEvents,
    prefillTokensPerMs: PRIOR_PREFILL_TOKENS_PER_MS,
    decodeStepMs: PRIOR_DECODE_STEP_MS,
    ...(hasLora ? { loras: facts.loras } : {}),
    ...(options.transfer === undefined
      ? {}
      : { transfer: await transferInfoOf(options, options.transfer, facts, place) }),
  };
}

async function transferInfoOf(
  options: VllmEngineOptions,
  transfer: VllmTransfer,
  facts: EngineFacts,
  { sideChannelPort, engineId }: TransferPlace,
): Promise<TransferInfo> {
  const { protocol } = transfer;
  if (protocol === 'mooncake' && engineId === undefined) {
    throw new VllmError(
      'VLLM_OPTIONS',
      'MooncakeConnector needs the name of the engine (engineId)',
    );
  }
  const bytes =
    options.kvBytesPerToken ??
    kvBytesPerToken(await readModelConfig(facts.modelPath), facts.cacheDtype);
  if (bytes === undefined) {
    throw new VllmError(
      'VLLM_OPTIONS',
      `config.json of ${facts.modelPath} does not tell the size of its KV; say the bytes of one token`,
    );
  }
  return {
    protocol,
    // What vLLM's own handshake compares, as far as it can be known from outside.
    revision: {
      engineVersion: facts.version,
      modelPath: facts.modelPath,
      cacheDtype: facts.cacheDtype,
      kvLayout: facts.kvLayout,
      blockSize: String(facts.blockSize),
      connector: connectorOf(protocol),
      ...backendsOf(transfer),
    },
    kvBytesPerToken: bytes,
    ...(engineId === undefined ? {} : { engineId }),
    ...(protocol === 'mooncake'
      ? { bootstrapAddr: `http://${transfer.host}:${sideChannelPort}` }
      : {}),
  };
}

/** Two engines that move KV by different libraries below NIXL never meet. */
function backendsOf({ extraConfig }: VllmTransfer): { backends?: string } {
  const backends = JSON.stringify(extraConfig?.['backends']);
  return backends === undefined || backends === DEFAULT_BACKENDS ? {} : { backends };
}

/** A sentence when an engine that came back cannot take the place of the one before. */
export function changedFacts(before: EngineFacts, after: EngineFacts): string | undefined {
  const names = [
    'blockSize',
    'kvBlocks',
    'contextTokens',
    'servedName',
    'version',
    // Of its announced revision: KV of another model or form would be given to those that cannot use it.
    'modelPath',
    'cacheDtype',
    'kvLayout',
    'dpRanks',
    'hasPrefixCaching',
  ] as const;
  const changes = names
    .filter((name) => before[name] !== after[name])
    .map((name) => `${name} ${before[name]} is now ${after[name]}`);
  return changes.length === 0 ? undefined : changes.join(', ');
}
