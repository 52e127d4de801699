/** Slot layout: left id, right id, rank, id of the merged token. An empty slot has left = -1. */
const SLOT_WORDS = 4;
const MAX_LOAD = 0.6;

function mix(left: number, right: number): number {
  const hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca77);
  return hash ^ (hash >>> 15);
}

/**
 * The merges of a BPE model as one open-addressing table over shared memory: 16 bytes a slot, so that 150,000 merges
 * take 4 MiB and every thread reads the same copy.
 */
export class MergeTable {
  readonly slots: Int32Array;
  readonly #mask: number;

  constructor(slots: Int32Array) {
    this.slots = slots;
    this.#mask = slots.length / SLOT_WORDS - 1;
  }

  static withCapacity(merges: number): MergeTable {
    const slots = 2 ** Math.ceil(Math.log2(Math.max(16, merges / MAX_LOAD)));
    const words = new Int32Array(new SharedArrayBuffer(slots * SLOT_WORDS * 4));
    return new MergeTable(words.fill(-1));
  }

  /** Adds a merge; of two with the same pair the later one stays, as in Hugging Face's library. */
  set(left: number, right: number, rank: number, merged: number): void {
    let at = (mix(left, right) & this.#mask) * SLOT_WORDS;
    while (this.slots[at] !== -1 && (this.slots[at] !== left || this.slots[at + 1] !== right)) {
      at = (at + SLOT_WORDS) & (this.slots.length - 1);
    }
    this.slots[at] = left;
    this.slots[at + 1] = right;
    this.slots[at + 2] = rank;
    this.slots[at + 3] = merged;
  }

  /** Where in `slots` the merge of this pair begins, or -1. Rank is at +2, the merged id at +3. */
  find(left: number, right: number): number {
    const slots = this.slots;
    const end = slots.length - 1;
    let at = (mix(left, right) & this.#mask) * SLOT_WORDS;
    for (;;) {
      const found = slots[at]!;
      if (found === left && slots[at + 1] === right) return at;
      if (found === -1) return -1;
      at = (at + SLOT_WORDS) & end;
    }
  }
}
