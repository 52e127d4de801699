import type { KvChange } from '@busbar/protocol';

/** Times of a step in milliseconds, from what is in the batch. A profile is data plus one pure function. */
export interface EngineProfile {
  readonly name: string;
  /** Duration of one engine step. */
  stepMs(batch: StepBatch): number;
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
  /** Sequences that get one output token. */
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
}

export interface MockDelta {
  key: number;
  tokens: number[];
  finish: 'none' | 'stop' | 'length' | 'cancelled' | 'error';
  cachedTokens?: number;
  error?: { code: string; message: string; retryable: boolean };
}

export interface StepOutput {
  deltas: MockDelta[];
  /** Changes of the cache, in order; blocks made by this step appear only here, never earlier. */
  kv: KvChange[];
  preempted: number;
}

/** A step that has begun: its results exist only after `endStep`. */
export interface StepPlan {
  durationMs: number;
  batch: StepBatch;
}
