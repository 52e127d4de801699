import type { IdBuffer } from '../id-buffer.ts';
import { CutPoints, type Cuts, NO_CUTS } from './cut-points.ts';
import type { FastModel } from './fast-model.ts';
import { MergeTable } from './merge-table.ts';
import { Merger } from './merger.ts';
import { PieceCache } from './piece-cache.ts';
import { splitPieces } from './split.ts';
import { TokenIndex } from './token-index.ts';

/** Below U+0300 nothing composes or reorders, so such text is NFC as it stands. */
const MAY_CHANGE_UNDER_NFC = /[^\0-\u02ff]/;
const MAX_CACHED_IDS = 64;
const SCRATCH_BYTES = 8192;

/**
 * Byte-level BPE over a FastModel. Takes the text between added tokens, well-formed; gives the ids that Hugging Face's
 * library gives for it. Synchronous; one instance per thread.
 */
export class FastEncoder {
  readonly #model: FastModel;
  readonly #merger: Merger;
  readonly #wholePieces: TokenIndex | undefined;
  readonly #cache = new PieceCache();
  readonly #utf8 = new TextEncoder();
  #bytes = new Uint8Array(SCRATCH_BYTES);

  constructor(model: FastModel) {
    this.#model = model;
    this.#merger = new Merger(new MergeTable(model.mergeSlots));
    const slots = model.wholePieceSlots;
    this.#wholePieces = slots && new TokenIndex(slots, model.vocabulary);
  }

  /** Appends the ids of `text` to `out`. */
  encodeInto(text: string, out: IdBuffer): void {
    const cache = this.#cache;
    for (const piece of splitPieces(this.#normalize(text), this.#model.splitSteps)) {
      out.reserve(MAX_CACHED_IDS);
      const known = cache.read(piece, out.ids, out.length);
      if (known >= 0) out.length += known;
      else this.#appendNew(piece, out);
    }
  }

  /** The same, and tells where the text may be cut: nowhere in one that normalizing changes, or that pieces leave out of. */
  encodeWithCuts(text: string, out: IdBuffer): Cuts {
    const normal = this.#normalize(text);
    const cuts = new CutPoints(text);
    const start = out.length;
    let end = 0;
    let previous = '';
    for (const piece of splitPieces(normal, this.#model.splitSteps)) {
      cuts.visit(previous, end, out.length - start);
      out.reserve(MAX_CACHED_IDS);
      const known = this.#cache.read(piece, out.ids, out.length);
      if (known >= 0) out.length += known;
      else this.#appendNew(piece, out);
      previous = piece;
      end += piece.length;
    }
    return normal === text && end === text.length ? cuts.take() : NO_CUTS;
  }

  #normalize(text: string): string {
    const mayChange = this.#model.normalizesNfc && MAY_CHANGE_UNDER_NFC.test(text);
    return mayChange ? text.normalize('NFC') : text;
  }

  #appendNew(piece: string, out: IdBuffer): void {
    const count = this.#encodePiece(piece);
    out.appendFirst(this.#merger.symbols, count);
    this.#cache.write(piece, this.#merger.symbols, count);
  }

  /** Leaves the ids of the piece in the merger's symbols and returns how many they are. */
  #encodePiece(piece: string): number {
    const length = this.#toBytes(piece);
    const bytes = this.#bytes;
    const merger = this.#merger;
    merger.reserve(length);
    const whole = this.#wholePieces?.find(bytes, length) ?? -1;
    if (whole >= 0) {
      merger.symbols[0] = whole;
      return 1;
    }
    const { byteIds } = this.#model;
    for (let i = 0; i < length; i++) merger.symbols[i] = byteIds[bytes[i]!]!;
    return merger.merge(length);
  }

  #toBytes(piece: string): number {
    const mostBytes = piece.length * 3;
    if (mostBytes > this.#bytes.length) this.#bytes = new Uint8Array(mostBytes);
    else if (mostBytes <= SCRATCH_BYTES && this.#bytes.length > SCRATCH_BYTES) {
      this.#bytes = new Uint8Array(SCRATCH_BYTES);
    }
    return this.#utf8.encodeInto(piece, this.#bytes).written;
  }
}
