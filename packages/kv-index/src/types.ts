/**
 * Which worker holds which block. Owners (a worker, a rank, a tier) are small integers that the caller hands out and may reuse
 * after `clear`. Blocks are named by their 64-bit sequence hash, two words each (low, high).
 *
 * Every operation is idempotent and order-independent within one owner's set: storing twice is one copy, removing what
 * is not there does nothing.
 */
export interface KvIndex {
  store(owner: number, hashes: Uint32Array): void;
  remove(owner: number, hashes: Uint32Array): void;
  /** Removes all blocks of this owner and of no other. Takes time in proportion to the whole index, not to the owner's part. */
  clear(owner: number): void;
  has(owner: number, low: number, high: number): boolean;
  /**
   * Writes, for every owner below `overlaps.length`, how many leading blocks of `hashes` it holds without a hole. `overlaps` is
   * the caller's and reused between calls.
   */
  match(hashes: Uint32Array, overlaps: Uint32Array): void;
  /** Blocks of one owner. */
  blocksOf(owner: number): number;
  /** All blocks of one owner as hash words, in no particular order. */
  dump(owner: number): Uint32Array;
  /** Distinct blocks that at least one owner holds. */
  readonly blocks: number;
  /** Blocks there is room for; falls again when blocks are removed. */
  readonly capacity: number;
  /** Bytes that the index holds in typed arrays. */
  readonly bytes: number;
}

export interface KvIndexOptions {
  /** Owners (the highest number plus one) that there is room for at once; more may come at any time. 32 if not given. */
  initialOwners?: number;
}
