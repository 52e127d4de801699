import { mix, slotOf } from './mix.ts';

const HASH_WORDS = 2;
const MIN_CAPACITY = 64;
/** Doubles above the first, to 0.4, and halves below the second, to 0.6; both are far from the next change. */
const MAX_LOAD = 0.8;
const MIN_LOAD = 0.3;

/**
 * Open addressing with linear probing over one Uint32Array. An entry is `stride` words: hash low, hash high, then a bitset of owners.
 * Hash and owners lie side by side, so a look-up costs one cache miss. An entry without owners does not exist; the
 * hash 0, which marks free entries, has a place of its own behind the last one.
 *
 * The fields are open to the loops of this package, which change owner bits in place; only methods of the table add and
 * delete entries or replace `words`. `mixed` is always `mix(low, high)`.
 */
export class BlockTable {
  words: Uint32Array;
  /** Words of the owner bitset. */
  ownerWords: number;
  stride: number;
  capacity = MIN_CAPACITY;
  /** Index of the entry of hash 0, one past the last slot. */
  end: number;
  shift = shiftOf(MIN_CAPACITY);
  used = 0;

  constructor(ownerWords: number) {
    this.ownerWords = ownerWords;
    this.stride = HASH_WORDS + ownerWords;
    this.end = MIN_CAPACITY * this.stride;
    this.words = new Uint32Array(this.end + this.stride);
  }

  /** Index of the block's entry, or of the free entry where the search ended. */
  find(low: number, high: number, mixed: number): number {
    const { words, stride, end } = this;
    if ((low | high) === 0) return end;
    let at = slotOf(mixed, this.shift) * stride;
    for (;;) {
      const entryLow = words[at]!;
      const entryHigh = words[at + 1]!;
      if (entryLow === low && entryHigh === high) return at;
      if ((entryLow | entryHigh) === 0) return at;
      at += stride;
      if (at === end) at = 0;
    }
  }

  /** Occupies the free entry `at`, as `find` gave it. The caller sets an owner bit. May move all entries: returns the new index. */
  add(at: number, low: number, high: number, mixed: number): number {
    this.used++;
    this.words[at] = low;
    this.words[at + 1] = high;
    if (this.used <= this.capacity * MAX_LOAD) return at;
    this.#rehash(this.capacity * 2);
    return this.find(low, high, mixed);
  }

  isFree(at: number): boolean {
    if (at === this.end) return !this.hasOwners(at);
    return (this.words[at]! | this.words[at + 1]!) === 0;
  }

  hasOwners(at: number): boolean {
    for (let i = 0; i < this.ownerWords; i++) {
      if (this.words[at + HASH_WORDS + i] !== 0) return true;
    }
    return false;
  }

  /**
   * Deletes the entry `at`, whose owner bits are all 0, by moving later entries of the same run back: no tombstones. What
   * follows `at` may move to `at` or further back in the run, never forward.
   */
  delete(at: number): void {
    this.used--;
    if (at === this.end) return;
    const { words, stride, end, shift } = this;
    let hole = at;
    let next = at;
    for (;;) {
      next += stride;
      if (next === end) next = 0;
      const low = words[next]!;
      const high = words[next + 1]!;
      if ((low | high) === 0) break;
      const home = slotOf(mix(low, high), shift) * stride;
      const fromHome = next >= home ? next - home : next - home + end;
      const fromHole = next >= hole ? next - hole : next - hole + end;
      if (fromHome >= fromHole) {
        for (let i = 0; i < stride; i++) words[hole + i] = words[next + i]!;
        hole = next;
      }
    }
    for (let i = 0; i < stride; i++) words[hole + i] = 0;
  }

  /** Gives memory back after deletions; may move all entries. */
  shrink(): void {
    if (this.used >= this.capacity * MIN_LOAD) return;
    let capacity = this.capacity;
    while (capacity > MIN_CAPACITY && this.used < capacity * MIN_LOAD) capacity /= 2;
    if (capacity !== this.capacity) this.#rehash(capacity);
  }

  /** Widens the bitset of every entry. Entries keep their slots. */
  widen(ownerWords: number): void {
    const { words, stride, capacity } = this;
    const wider = HASH_WORDS + ownerWords;
    const widened = new Uint32Array((capacity + 1) * wider);
    for (let slot = 0; slot <= capacity; slot++) {
      const from = slot * stride;
      const to = slot * wider;
      for (let i = 0; i < stride; i++) widened[to + i] = words[from + i]!;
    }
    this.ownerWords = ownerWords;
    this.stride = wider;
    this.end = capacity * wider;
    this.words = widened;
  }

  #rehash(capacity: number): void {
    const { words, stride, end } = this;
    const shift = shiftOf(capacity);
    const newEnd = capacity * stride;
    const moved = new Uint32Array(newEnd + stride);
    // Slots are the top bits of what `mix` gives, so both tables are walked from front to back.
    for (let from = 0; from < end; from += stride) {
      const low = words[from]!;
      const high = words[from + 1]!;
      if ((low | high) === 0) continue;
      let to = slotOf(mix(low, high), shift) * stride;
      while ((moved[to]! | moved[to + 1]!) !== 0) {
        to += stride;
        if (to === newEnd) to = 0;
      }
      for (let i = 0; i < stride; i++) moved[to + i] = words[from + i]!;
    }
    for (let i = 0; i < stride; i++) moved[newEnd + i] = words[end + i]!;
    this.words = moved;
    this.capacity = capacity;
    this.end = newEnd;
    this.shift = shift;
  }
}

function shiftOf(capacity: number): number {
  return Math.clz32(capacity) + 1;
}
