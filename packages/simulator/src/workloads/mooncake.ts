import { createRng } from '@busbar/base';
import {
  equalWorkers,
  openLoop,
  type SimRequest,
  totalSpeed,
  type WorkloadDefinition,
} from '../workload.ts';
import { mooncakeShape } from './mooncake-shape.ts';
import { MOONCAKE_BLOCK_TOKENS, type MooncakeRecord } from './mooncake-trace.ts';
import { randomTokens } from './text.ts';

/** Divides all lengths, so that prompts of many thousand tokens fit caches of some thousand blocks. */
export const DEFAULT_TRACE_SCALE = 8;
/** Prompts longer than this, after scaling, are cut. */
const LONGEST_PROMPT = 3_500;

const WORKERS = equalWorkers(4, 926);
/** For each unit of speed; loads a worker of profile `seed-8gb` to about 60 %. */
const CONVERSATIONS_PER_SEC = 2.7;
const DURATION_MS = 30_000;

/** A trace in Mooncake's shape, made from the seed. */
export const mooncake: WorkloadDefinition = {
  name: 'mooncake',
  title: `a trace of Mooncake's shape, lengths divided by ${DEFAULT_TRACE_SCALE}, on four workers`,
  workers: WORKERS,
  create: ({ seed, workers, durationMs = DURATION_MS }) => {
    const conversationsPerSec = CONVERSATIONS_PER_SEC * totalSpeed(workers);
    const records = mooncakeShape({ seed, conversationsPerSec, durationMs, turnMs: 6_000 });
    return openLoop(() => requestsOf(records, { seed, scale: DEFAULT_TRACE_SCALE, timeScale: 1 }));
  },
};

export interface TraceScale {
  seed: number;
  /** Divides input lengths, output lengths and block size. */
  scale: number;
  /** Multiplies all times. */
  timeScale: number;
}

/** A recorded trace as a workload. */
export function traceWorkload(
  records: readonly MooncakeRecord[],
  { scale, timeScale }: Omit<TraceScale, 'seed'>,
): WorkloadDefinition {
  return {
    name: 'trace',
    title: `${records.length} requests of a trace, lengths divided by ${scale}`,
    workers: WORKERS,
    create: ({ seed }) => openLoop(() => requestsOf(records, { seed, scale, timeScale })),
  };
}

function* requestsOf(records: readonly MooncakeRecord[], { seed, scale, timeScale }: TraceScale) {
  const rng = createRng(seed);
  const seen = new Set<number>();
  let tag = 0;
  for (const record of records) {
    const known = record.hash_ids.filter((id) => seen.has(id)).length;
    for (const id of record.hash_ids) seen.add(id);
    const request: SimRequest = {
      tokens: tokensOf(record, scale),
      maxTokens: Math.max(1, Math.round(record.output_length / scale)),
      ignoreEos: true,
      seed: rng.u32(),
      isRepeat: known * 2 >= record.hash_ids.length,
      tag: tag++,
    };
    yield { atMs: record.timestamp * timeScale, request };
  }
}

/** Equal ids become equal tokens, whatever else is in the trace. */
function tokensOf(record: MooncakeRecord, scale: number): Uint32Array {
  const blockTokens = Math.max(1, Math.round(MOONCAKE_BLOCK_TOKENS / scale));
  const length = Math.min(LONGEST_PROMPT, Math.max(1, Math.round(record.input_length / scale)));
  const tokens = new Uint32Array(length);
  record.hash_ids.forEach((id, i) => {
    const at = i * blockTokens;
    if (at < length)
      tokens.set(randomTokens(createRng(id), Math.min(blockTokens, length - at)), at);
  });
  return tokens;
}
