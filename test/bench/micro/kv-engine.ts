import {
  createMockEngine,
  type Engine,
  type EngineRequest,
  type EngineSink,
  type FetchReport,
} from '@busbar/engine';
import { PROFILES } from '@busbar/mocker';
import type { TransferParams } from '@busbar/protocol';

/** What the two processes of `transfer.bench.ts` have in common: a mock engine that exchanges the KV of Qwen3-0.6B. */

/** 3,067 tokens of 114,688 bytes are 352 MB. */
export const PROMPT_TOKENS = 3_067;
export const KV_BYTES_PER_TOKEN = 114_688;

export interface KvHeard {
  staged: (key: number, transfer: TransferParams) => void;
  began: (key: number) => void;
  ended: (key: number, report: FetchReport) => void;
}

export async function startEngine(role: 'prefill' | 'decode', heard: KvHeard): Promise<Engine> {
  const profile = PROFILES['instant'];
  if (profile === undefined) throw new Error('there is no profile "instant"');
  const engine = createMockEngine({
    model: 'bench',
    role,
    mocker: {
      blockSize: 16,
      kvBlocks: 8_192,
      contextTokens: 4_096,
      profile,
      speed: 1,
      script: [Uint32Array.of(1, 2, 3)],
      eosTokenIds: [2],
    },
    emitKvEvents: false,
    clock: { monotonicMs: () => performance.now(), wallMs: () => Date.now() },
    transfer: { host: '127.0.0.1', port: 0 },
    kvBytesPerToken: KV_BYTES_PER_TOKEN,
  });
  await engine.start(sinkOf(heard), new AbortController().signal);
  return engine;
}

/** Equal keys have equal prompts, so that one process can stage what the other fetches. */
function promptOf(key: number): Uint32Array {
  return Uint32Array.from({ length: PROMPT_TOKENS }, (_, at) => key * 100_000 + at);
}

export function submit(engine: Engine, key: number, more: Partial<EngineRequest>): void {
  const result = engine.submit({
    key,
    tokens: promptOf(key),
    maxTokens: 1,
    minTokens: 0,
    ignoreEos: true,
    stopTokenIds: [],
    sampling: { temperature: 0 },
    ...more,
  });
  if (result.kind === 'refused') throw new Error(result.message);
}

function sinkOf({ staged, began, ended }: KvHeard): EngineSink {
  return {
    onStep: ({ deltas }) => {
      for (const { key, transfer, error } of deltas) {
        if (error !== undefined) throw new Error(error.message);
        if (transfer !== undefined) staged(key, transfer);
      }
    },
    onKv: () => {},
    onCacheReset: () => {},
    onStagedEnd: () => {},
    onFetchBegin: began,
    onFetchEnd: ended,
    onInfo: () => {},
    onFault: (error) => {
      throw error;
    },
  };
}
