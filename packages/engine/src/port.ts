import type { KvChange, Sampling, Tier, WorkerInfo } from '@busbar/protocol';

/** One sequence for the engine. Token in, token out: the engine never sees text. */
export interface EngineRequest {
  /** Chosen by the caller, unique among the running requests of this engine. */
  key: number;
  tokens: Uint32Array;
  maxTokens: number;
  minTokens: number;
  ignoreEos: boolean;
  stopTokenIds: readonly number[];
  sampling: Sampling;
  cacheSalt?: string;
  lora?: string;
}

export interface EngineDelta {
  key: number;
  /** New output tokens, at least one unless `finish` is set. */
  tokens: Uint32Array;
  finish: 'none' | 'stop' | 'length' | 'cancelled' | 'error';
  /** With the first delta: prompt tokens that were in the KV cache. */
  cachedTokens?: number;
  error?: { code: string; message: string; retryable: boolean };
}

/** Everything that one engine step produced. */
export interface EngineStep {
  deltas: EngineDelta[];
}

export interface KvChanges {
  dpRank: number;
  tier: Tier;
  changes: KvChange[];
}

/** The engine calls these synchronously, in order; they must not throw. KV changes of a step come before its tokens. */
export interface EngineSink {
  onStep(step: EngineStep): void;
  /** Only called when the engine emits KV events. */
  onKv(changes: KvChanges): void;
  /** The cache began anew (restart, reset): every block of before is gone. */
  onCacheReset(): void;
  /** The engine cannot go on; every running request was answered with `error` before. */
  onFault(error: Error): void;
}

export interface EngineLoad {
  running: number;
  waiting: number;
  waitingPrefillTokens: number;
  freeBlocks: number;
  activeBlocks: number;
  decodeStepMs: number;
  prefillTokensPerMs: number;
  storedBlocksTotal: number;
}

export type SubmitResult =
  | { kind: 'accepted' }
  | {
      kind: 'refused';
      code: 'WORKER_TOO_LONG' | 'WORKER_BAD_REQUEST' | 'WORKER_FAULT';
      message: string;
      retryable: boolean;
    };

/** An inference engine. `./contract` holds for every implementation. */
export interface Engine {
  /** Resolves when the engine can serve; the info is complete from then on. Rejects when it cannot start or `signal` fires. */
  start(sink: EngineSink, signal: AbortSignal): Promise<WorkerInfo>;
  submit(request: EngineRequest): SubmitResult;
  /** Ends the request with `finish: "cancelled"` at the next step and frees its blocks. Unknown keys are ignored. */
  abort(key: number): void;
  load(): EngineLoad;
  /** Hashes of all reusable blocks of each rank and tier, parents before children where the engine knows them. */
  blocks(): { dpRank: number; tier: Tier; hashes: Uint32Array }[];
  /** Drops the reusable blocks that no running sequence uses, and says so by KV events. */
  resetCache(): void;
  /** Ends every running request with `cancelled` and frees what the engine holds. */
  stop(): Promise<void>;
}
