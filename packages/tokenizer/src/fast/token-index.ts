import type { PackedVocabulary } from '../vocabulary.ts';

function hashBytes(bytes: Uint8Array, from: number, to: number): number {
  let hash = 0x811c9dc5;
  for (let i = from; i < to; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  return hash ^ (hash >>> 15);
}

/** Finds the id of a token by its bytes: an open-addressing table of ids over shared memory. */
export class TokenIndex {
  readonly slots: Int32Array;
  readonly #vocabulary: PackedVocabulary;

  constructor(slots: Int32Array, vocabulary: PackedVocabulary) {
    this.slots = slots;
    this.#vocabulary = vocabulary;
  }

  static of(ids: readonly number[], vocabulary: PackedVocabulary): TokenIndex {
    const length = 2 ** Math.ceil(Math.log2(Math.max(16, ids.length * 2)));
    const slots = new Int32Array(new SharedArrayBuffer(length * 4)).fill(-1);
    const { bytes, offsets } = vocabulary;
    for (const id of ids) {
      let at = hashBytes(bytes, offsets[id]!, offsets[id + 1]!) & (length - 1);
      while (slots[at] !== -1) at = (at + 1) & (length - 1);
      slots[at] = id;
    }
    return new TokenIndex(slots, vocabulary);
  }

  /** The id whose bytes are the first `length` of `piece`, or -1. */
  find(piece: Uint8Array, length: number): number {
    const mask = this.slots.length - 1;
    for (let at = hashBytes(piece, 0, length) & mask; ; at = (at + 1) & mask) {
      const id = this.slots[at]!;
      if (id < 0 || this.#equals(id, piece, length)) return id;
    }
  }

  #equals(id: number, piece: Uint8Array, length: number): boolean {
    const { bytes, offsets } = this.#vocabulary;
    const from = offsets[id]!;
    if (offsets[id + 1]! - from !== length) return false;
    for (let i = 0; i < length; i++) {
      if (bytes[from + i] !== piece[i]) return false;
    }
    return true;
  }
}
