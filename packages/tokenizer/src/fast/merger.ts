import { CandidateHeap } from './candidate-heap.ts';
import type { MergeTable } from './merge-table.ts';

/** Above this many symbols a heap of candidates beats looking at every pair again. Measured; either way is exact. */
const SCAN_MAX = 40;
/** Scratch memory kept between pieces. */
const KEPT_SYMBOLS = 8192;
const POSITIONS = 2 ** 32;

/**
 * Merges the symbols of one piece by the rules of BPE: the pair with the lowest rank first, the leftmost of equal ones.
 * O(n²) on short pieces, O(n log n) on long ones. Scratch memory is reused, so an instance serves one piece at a time.
 */
export class Merger {
  readonly #table: MergeTable;
  readonly #heap = new CandidateHeap();
  /** Token ids of the symbols. Write the piece here, then call `merge`. */
  symbols = new Int32Array(256);
  #ranks = new Int32Array(SCAN_MAX);
  #next = new Int32Array(256);
  #previous = new Int32Array(256);

  constructor(table: MergeTable) {
    this.#table = table;
  }

  /** Makes room for `count` symbols; the contents are lost. */
  reserve(count: number): void {
    if (count <= this.symbols.length && this.symbols.length <= KEPT_SYMBOLS) return;
    const length = Math.max(256, 2 ** Math.ceil(Math.log2(count)));
    if (length === this.symbols.length) return;
    this.symbols = new Int32Array(length);
    this.#next = new Int32Array(length);
    this.#previous = new Int32Array(length);
    this.#heap.shrink(KEPT_SYMBOLS);
  }

  /** Merges the first `count` symbols in place and returns how many are left. */
  merge(count: number): number {
    if (count < 2) return count;
    return count <= SCAN_MAX ? this.#mergeByScan(count) : this.#mergeByHeap(count);
  }

  #mergeByScan(count: number): number {
    const symbols = this.symbols;
    const ranks = this.#ranks;
    const table = this.#table;
    let left = count;
    for (let i = 0; i + 1 < left; i++) ranks[i] = this.#rank(symbols[i]!, symbols[i + 1]!);
    for (;;) {
      let best = 0x7fffffff;
      let at = -1;
      for (let i = 0; i + 1 < left; i++) {
        if (ranks[i]! < best) {
          best = ranks[i]!;
          at = i;
        }
      }
      if (at < 0) return left;
      symbols[at] = table.slots[table.find(symbols[at]!, symbols[at + 1]!) + 3]!;
      left--;
      symbols.copyWithin(at + 1, at + 2, left + 1);
      ranks.copyWithin(at + 1, at + 2, left);
      if (at + 1 < left) ranks[at] = this.#rank(symbols[at]!, symbols[at + 1]!);
      if (at > 0) ranks[at - 1] = this.#rank(symbols[at - 1]!, symbols[at]!);
    }
  }

  #rank(left: number, right: number): number {
    const slot = this.#table.find(left, right);
    return slot < 0 ? 0x7fffffff : this.#table.slots[slot + 2]!;
  }

  /** A key is rank · 2^32 + position: exact in a double up to rank 2^21, and equal ranks come out left to right. */
  #mergeByHeap(count: number): number {
    const { symbols } = this;
    const { slots } = this.#table;
    const heap = this.#heap;
    const next = this.#next;
    const previous = this.#previous;
    heap.clear();
    for (let i = 0; i < count; i++) {
      next[i] = i + 1;
      previous[i] = i - 1;
      if (i + 1 === count) continue;
      const slot = this.#table.find(symbols[i]!, symbols[i + 1]!);
      if (slot >= 0) heap.append(slots[slot + 2]! * POSITIONS + i);
    }
    next[count - 1] = -1;
    heap.order();
    while (heap.size > 0) {
      const key = heap.pop();
      const at = key >>> 0;
      const right = next[at]!;
      if (symbols[at]! < 0 || right < 0) continue;
      const slot = this.#table.find(symbols[at]!, symbols[right]!);
      // The pair may have changed since it was pushed; what is there now has its own entry.
      if (slot < 0 || slots[slot + 2]! * POSITIONS + at !== key) continue;
      symbols[at] = slots[slot + 3]!;
      symbols[right] = -1;
      const after = next[right]!;
      next[at] = after;
      if (after >= 0) {
        previous[after] = at;
        this.#push(at, after);
      }
      const before = previous[at]!;
      if (before >= 0) this.#push(before, at);
    }
    return this.#compact(count);
  }

  #push(at: number, right: number): void {
    const slot = this.#table.find(this.symbols[at]!, this.symbols[right]!);
    if (slot >= 0) this.#heap.push(this.#table.slots[slot + 2]! * POSITIONS + at);
  }

  #compact(count: number): number {
    const symbols = this.symbols;
    let kept = 0;
    for (let i = 0; i < count; i++) {
      if (symbols[i]! >= 0) symbols[kept++] = symbols[i]!;
    }
    return kept;
  }
}
