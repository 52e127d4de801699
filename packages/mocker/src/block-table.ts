const EMPTY = -1;

/**
 * Finds a pool block by its 64-bit hash: open addressing with linear probing at most half full, no tombstones. Entries are
 * block ids; the hash words stay in the pool's columns, which the table reads.
 */
export class BlockTable {
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #low: Uint32Array;
  readonly #high: Uint32Array;

  /** `low` and `high` hold the hash words of each block id and outlive the table. */
  constructor(low: Uint32Array, high: Uint32Array) {
    let size = 4;
    while (size < low.length * 2) size *= 2;
    this.#slots = new Int32Array(size).fill(EMPTY);
    this.#mask = size - 1;
    this.#low = low;
    this.#high = high;
  }

  /** The block entered under this hash, or -1. */
  get(low: number, high: number): number {
    return this.#slots[this.#find(low, high)]!;
  }

  /** Enters a block under its own hash words, in place of a block of the same hash. */
  set(block: number): void {
    this.#slots[this.#find(this.#low[block]!, this.#high[block]!)] = block;
  }

  /** Forgets this hash and closes the gap, so that probing never meets a hole in a run. */
  delete(low: number, high: number): void {
    const slots = this.#slots;
    const mask = this.#mask;
    let hole = this.#find(low, high);
    if (slots[hole] === EMPTY) return;
    let at = hole;
    for (;;) {
      at = (at + 1) & mask;
      const block = slots[at]!;
      if (block === EMPTY) break;
      const home = this.#low[block]! & mask;
      if (((at - home) & mask) >= ((at - hole) & mask)) {
        slots[hole] = block;
        hole = at;
      }
    }
    slots[hole] = EMPTY;
  }

  /** Every entered block, in no meaningful but repeatable order. */
  *values(): Generator<number> {
    for (const block of this.#slots) if (block !== EMPTY) yield block;
  }

  /** The slot that holds the hash, or the empty one where it belongs. */
  #find(low: number, high: number): number {
    let at = low & this.#mask;
    for (;;) {
      const block = this.#slots[at]!;
      if (block === EMPTY || (this.#low[block] === low && this.#high[block] === high)) return at;
      at = (at + 1) & this.#mask;
    }
  }
}
