import type { Tier } from '@busbar/protocol';

/**
 * A block as the engine names it: its hash's low 64 bits, which is what vLLM publishes as an integer by default and the end of
 * what it publishes as bytes. Opaque: another process names the same block differently.
 */
export type EngineHash = bigint;

/** Blocks that follow one another in one sequence became reusable. */
export interface StoredEvent {
  kind: 'stored';
  hashes: readonly EngineHash[];
  /** The block before the first; undefined where the sequence begins. */
  parent: EngineHash | undefined;
  /** Of all blocks, one after the other. Empty where the engine only says that it has moved blocks. */
  tokens: Uint32Array;
  blockSize: number;
  tier: Tier;
  group: number | undefined;
  /** The kind of attention of this cache group, where the engine says it. */
  groupKind: string | undefined;
  lora: string | undefined;
  /** The adapter has a number but no name, as before vLLM 0.14. */
  hasUnnamedLora: boolean;
  /** Per block what beside tokens went into its hash; undefined where the engine does not say, as before vLLM 0.17. */
  extraKeys: (readonly unknown[] | undefined)[] | undefined;
}

export interface RemovedEvent {
  kind: 'removed';
  hashes: readonly EngineHash[];
  tier: Tier;
  group: number | undefined;
}

export type VllmKvEvent =
  | StoredEvent
  | RemovedEvent
  | { kind: 'cleared' }
  /** Well formed, but of a type or in a memory that this version does not know. */
  | { kind: 'unknown'; what: string };

/** The payload of one message. */
export interface VllmKvBatch {
  events: VllmKvEvent[];
}
