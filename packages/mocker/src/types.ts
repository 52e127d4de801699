import type { EngineLoad, KvChange } from '@busbar/protocol';

/** Times of a step in milliseconds, from what is in the batch. A profile is data plus one pure function. */
export interface EngineProfile {
  readonly name: string;
  /** Duration of one engine step. */
  readonly stepMs: (batch: StepBatch) => number;
  readonly maxRunning: number;
  /** Prompt and decode tokens that one step may compute. */
  readonly maxBatchedTokens: number;
  /** Priors that a worker with this profile announces. */
  readonly prefillTokensPerMs: number;
  readonly decodeStepMs: number;
}

/** What one step computes. */
export interface StepBatch {
  /** New prompt tokens over all sequences. */
  prefillTokens: number;
  /** Pairs of a new prompt token and a token that it attends to: what attention costs above the linear part. */
  prefillPairs: number;
  /** Sequences that get one output token and compute one token for it. */
  decodeSequences: number;
  /** KV tokens that running sequences hold, and what the pool can hold. */
  activeKvTokens: number;
  kvTokens: number;
}

export interface MockerConfig {
  blockSize: number;
  kvBlocks: number;
  contextTokens: number;
  profile: EngineProfile;
  /** Speed of this worker against the profile; 2 halves all times. */
  speed: number;
  /** Pieces (sentences, say) that answers are made of; a request's seed chooses their order. At least one, none empty. */
  script: readonly Uint32Array[];
  /** First of these ends an answer that reaches its own natural length. */
  eosTokenIds: readonly number[];
}

export interface MockRequest {
  /** Chosen by the caller, unique among the unfinished requests. */
  key: number;
  tokens: Uint32Array;
  /** Two words a block; full blocks of the prompt. */
  hashes: Uint32Array;
  /** Seed of the block hashes (LoRA and salt), to go on hashing the output. */
  hashSeed: bigint;
  maxTokens: number;
  minTokens: number;
  ignoreEos: boolean;
  stopTokenIds: readonly number[];
  seed: number;
  /** Compute the prompt and one token, and keep the blocks (staged) until `releaseStaged`; the key stays in use as long. */
  stagesKv?: boolean;
  /**
   * Take blocks for the whole prompt and wait for their contents from elsewhere: `kvArrived` or `kvFailed`. What the cache holds
   * is used and not fetched. Never together with `stagesKv`.
   */
  fetchesKv?: boolean;
}

/** Blocks of a prompt that have their place in the pool and want their contents. */
export interface MockFetch {
  key: number;
  /** Blocks that the cache held. */
  fromBlock: number;
  /** Blocks to fetch, full or not: at least one. */
  blocks: number;
}

export interface MockDelta {
  key: number;
  /** New output tokens; an end-of-sequence or stop token that ended the answer is among them. */
  tokens: number[];
  finish: 'none' | 'stop' | 'length' | 'cancelled' | 'error';
  /** With the first delta: prompt tokens that were in the cache; of a fetched prompt those that were not fetched. */
  cachedTokens?: number;
  error?: { code: string; message: string; retryable: boolean };
}

export interface StepOutput {
  /** At most one for each request; each request gets exactly one with a `finish` other than `none`. */
  deltas: MockDelta[];
  /** Changes of the cache, in order; blocks made by this step appear only here, never earlier. */
  kv: KvChange[];
  preempted: number;
}

/** A step that has begun: its results exist only after `endStep`. */
export interface StepPlan {
  /** 0 for a step that computes nothing and only delivers what ended in between. */
  durationMs: number;
  batch: StepBatch;
  /** Fetches that begin with this step. They go on beside it; each ends by `kvArrived`, `kvFailed` or `abort`. */
  fetches: readonly MockFetch[];
}

/**
 * The model of an engine. It holds no clock: the driver begins a step, lets `durationMs` pass, and ends it. Equal calls give equal
 * answers.
 */
export interface Mocker {
  /** Tokens, prompt and output together, that one request can have: the context, or the whole pool where that is smaller. */
  readonly contextTokens: number;
  /** Queues a request. One that can never fit ends with `error` in the next step. */
  submit(request: MockRequest): void;
  /**
   * Ends a request with `cancelled`, its blocks free at once, or at the end of the step that computes it. Of one that is staged it
   * gives up the blocks. Unknown keys are ignored.
   */
  abort(key: number): void;
  /** The blocks of a fetch have their contents: they are told with the end of a step, and the sequence goes on with its last prompt token. */
  kvArrived(key: number): void;
  /** The contents of a fetch will not come: the request ends with a retryable WORKER_KV_LOST, its blocks free at once. */
  kvFailed(key: number, reason: string): void;
  /** The staged blocks of a request are wanted no longer. Unknown keys are ignored, by the two above too. */
  releaseStaged(key: number): void;
  /** Plans the next step, or answers undefined when there is nothing to compute and nothing to deliver. */
  beginStep(nowMs: number): StepPlan | undefined;
  /** The results of the step that `beginStep` planned. */
  endStep(nowMs: number): StepOutput;
  load(): EngineLoad;
  /** Hashes of all reusable blocks, parents before children: exactly what all `kv` so far add up to. */
  blocks(): Uint32Array;
  /** Drops the reusable blocks that no sequence uses; the next step's `kv` says so. */
  resetCache(): void;
  /** Throws when pool, queue, table and sequences do not agree. For tests: it walks everything. */
  checkInvariants(): void;
}
