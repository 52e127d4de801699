import { ownedCopy } from '../owned-copy.ts';

const PIECES_PER_GENERATION = 32_768;
const IDS_PER_GENERATION = 131_072;
const MAX_IDS_PER_PIECE = 63;
/** Pieces above this length hardly repeat. */
const MAX_CACHED_PIECE_CHARS = 48;

class Generation {
  readonly ids = new Uint32Array(IDS_PER_GENERATION);
  readonly pieces = new Map<string, number>();
  used = 0;
}

/**
 * Token ids of pieces seen before. Two generations: when the young one is full it becomes the old one, and the old one is
 * dropped with all that was not asked for since. At most 65,536 pieces and 1 MiB of ids.
 */
export class PieceCache {
  #young = new Generation();
  #old = new Generation();

  /** Writes the ids of `piece` to `out` at `at` and returns how many, or -1 when unknown. `out` has room for 63. */
  read(piece: string, out: Uint32Array, at: number): number {
    let generation = this.#young;
    let place = generation.pieces.get(piece);
    if (place === undefined) {
      generation = this.#old;
      place = generation.pieces.get(piece);
      if (place === undefined) return -1;
      this.#add(piece, generation.ids, place >>> 6, place & 63);
    }
    const from = place >>> 6;
    const count = place & 63;
    const ids = generation.ids;
    for (let i = 0; i < count; i++) out[at + i] = ids[from + i]!;
    return count;
  }

  /** Remembers the first `count` of `ids` for `piece`; a piece that is too long is left out. */
  write(piece: string, ids: Int32Array, count: number): void {
    if (piece.length > MAX_CACHED_PIECE_CHARS || count > MAX_IDS_PER_PIECE) return;
    this.#add(piece, ids, 0, count);
  }

  #add(piece: string, ids: Int32Array | Uint32Array, from: number, count: number): void {
    const { pieces, used } = this.#young;
    if (pieces.size >= PIECES_PER_GENERATION || used + count > IDS_PER_GENERATION) {
      this.#old = this.#young;
      this.#young = new Generation();
    }
    const young = this.#young;
    for (let i = 0; i < count; i++) young.ids[young.used + i] = ids[from + i]!;
    young.pieces.set(ownedCopy(piece), young.used * 64 + count);
    young.used += count;
  }
}
