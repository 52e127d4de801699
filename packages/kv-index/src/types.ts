/**
 * Which worker holds which block. Owners (a worker, a rank, a tier) are small integers that the caller hands out and may reuse
 * after `removeOwner`. Blocks are named by their 64-bit sequence hash, two words each (low, high).
 *
 * Every operation is idempotent and order-independent within one owner's set: storing twice is one copy, removing what
 * is not there does nothing.
 */
export interface KvIndex {
  store(owner: number, hashes: Uint32Array): void;
  remove(owner: number, hashes: Uint32Array): void;
  /** Removes all blocks of this owner and of no other. */
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
  /** Bytes that the index holds in typed arrays. */
  readonly bytes: number;
}
