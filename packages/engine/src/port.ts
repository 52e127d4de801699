import type { FetchReport } from '@busbar/links';
import type {
  EngineLoad,
  KvChange,
  KvSource,
  Sampling,
  Tier,
  TransferParams,
  WorkerInfo,
} from '@busbar/protocol';

export type { EngineLoad, FetchReport };

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
  /**
   * Compute the prompt and one token only, and keep the KV for a decode worker. The last delta carries `transfer`; the key stays
   * in use until `onStagedEnd`. Never together with `kvSource`.
   */
  stageKv?: { transferId: string };
  /**
   * Fetch the KV of the prompt from there instead of computing it. A fetch that fails ends the request with a retryable
   * WORKER_KV_LOST before any token.
   */
  kvSource?: KvSource;
}

export interface EngineDelta {
  key: number;
  /** New output tokens, at least one unless `finish` is set. */
  tokens: Uint32Array;
  finish: 'none' | 'stop' | 'length' | 'cancelled' | 'error';
  /** Once, with the first delta or, where the engine tells it at the end only, with the last: prompt tokens found in the KV cache. */
  cachedTokens?: number;
  error?: { code: string; message: string; retryable: boolean };
  /** With the last delta of a request with `stageKv`. */
  transfer?: TransferParams;
}

/** How the KV that a `stageKv` request kept came to its end. */
export type StagedEnd = 'fetched' | 'released' | 'expired';

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
  /** The KV that request `key` kept is given up or gone; its blocks are free and its key is unused. */
  onStagedEnd(key: number, how: StagedEnd): void;
  /**
   * A fetch for request `key` begins to move bytes. Always followed by `onFetchEnd`; behind one with the outcome `busy` it may begin
   * again.
   */
  onFetchBegin(key: number): void;
  onFetchEnd(key: number, report: FetchReport): void;
  /** The engine says something new of itself: adapters came or went, say. */
  onInfo(info: WorkerInfo): void;
  /** The engine cannot go on; every running request was answered with `error` before. */
  onFault(error: Error): void;
}

export type SubmitResult =
  | { kind: 'accepted' }
  | {
      kind: 'refused';
      code: 'WORKER_TOO_LONG' | 'WORKER_BAD_REQUEST' | 'WORKER_FAULT' | 'WORKER_KV_LOST';
      message: string;
      retryable: boolean;
    };

/** An inference engine. `./contract` holds for every implementation. */
export interface Engine {
  /** Resolves when the engine can serve; the info is complete from then on. Rejects when it cannot start or `signal` fires. */
  start(sink: EngineSink, signal: AbortSignal): Promise<WorkerInfo>;
  submit(request: EngineRequest): SubmitResult;
  /**
   * Ends the request with `finish: "cancelled"` at the next step and frees its blocks; of a finished `stageKv` request it gives
   * up the KV, as far as the engine can. Unknown keys are ignored.
   */
  abort(key: number): void;
  /**
   * The KV that request `key` staged was fetched: a decode worker that was told to has shown a token. For engines that hear of it in no
   * other way; unknown keys are ignored.
   */
  stagedFetched?(key: number): void;
  load(): EngineLoad;
  /** Hashes of all reusable blocks of each rank and tier, parents before children where the engine knows them. */
  blocks(): { dpRank: number; tier: Tier; hashes: Uint32Array }[];
  /** Drops the reusable blocks that no running sequence uses, and says so by KV events. Rejects with the engine's own sentence. */
  resetCache(): Promise<void>;
  /** The engine's own metrics as Prometheus text, where it has any. */
  metricsText?(): Promise<string>;
  /** Adapters; the new list comes by `onInfo`. Rejects with the engine's own sentence. */
  loadLora?(name: string, path: string): Promise<void>;
  unloadLora?(name: string): Promise<void>;
  /** Frees the accelerator's memory until `wake`; requests are refused meanwhile. Absent where the platform cannot. */
  sleep?(level: 1 | 2): Promise<void>;
  wake?(): Promise<void>;
  /** Ends every running request with `cancelled` and frees what the engine holds. */
  stop(): Promise<void>;
}
