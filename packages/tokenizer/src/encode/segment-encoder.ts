import { type Cuts, joinCuts } from '../fast/cut-points.ts';
import type { FastEncoder } from '../fast/fast-encoder.ts';
import { IdBuffer } from '../id-buffer.ts';
import type { Head } from './head-index.ts';
import { SegmentCache } from './segment-cache.ts';

/** A segment that has to be encoded, from the end of its known head on. */
export interface UnknownSegment {
  readonly segment: string;
  readonly head: Head | undefined;
  readonly rest: string;
}

export interface SegmentEncoderOptions {
  /** Of the memory for what is remembered. */
  readonly maxBytes: number;
  /** Whether texts of this model may be cut, so that the beginning of one serves another. */
  readonly knowsHeads: boolean;
  /** UTF-8 bytes of known segments in which one text may have cuts looked for, which costs as much as encoding; any when absent. */
  readonly cutBytes?: number;
}

/** The segments between added tokens, from what is remembered of them and the fast path for the rest. */
export class SegmentEncoder {
  readonly #encoder: FastEncoder;
  readonly #cache: SegmentCache;
  readonly #scratch = new IdBuffer();
  readonly #cutBytes: number;
  #cutBytesLeft: number;

  /** `knowsHeads` when texts of this model may be cut. */
  constructor(encoder: FastEncoder, { maxBytes, knowsHeads, cutBytes }: SegmentEncoderOptions) {
    this.#encoder = encoder;
    this.#cutBytes = cutBytes ?? Number.POSITIVE_INFINITY;
    this.#cutBytesLeft = this.#cutBytes;
    const cutsOf = knowsHeads ? (text: string): Cuts | undefined => this.#cutsOf(text) : undefined;
    this.#cache = new SegmentCache({ maxBytes, cutsOf });
  }

  /** The segments that follow are those of a new text. */
  beginText(): void {
    this.#cutBytesLeft = this.#cutBytes;
  }

  /** The ids of a whole segment encoded before, or what of it has to be encoded. */
  lookUp(segment: string): Uint32Array | UnknownSegment {
    return this.#cache.get(segment) ?? this.#unknown(segment);
  }

  /** Appends the ids of `segment` to `out` and remembers them. `unknown` is what `lookUp` has said of it for this text. */
  encodeInto(segment: string, out: IdBuffer, unknown?: UnknownSegment): void {
    const ids = this.#cache.get(segment);
    if (ids !== undefined) {
      out.append(ids);
      return;
    }
    const { head, rest } = unknown ?? this.#unknown(segment);
    const start = out.length;
    if (head !== undefined) out.append(head.ids);
    if (!this.#cache.takes(segment, head)) {
      this.#encoder.encodeInto(rest, out);
      return;
    }
    let cuts: Cuts | undefined;
    if (head === undefined) this.#encoder.encodeInto(segment, out);
    else {
      const restCuts = this.#encoder.encodeWithCuts(rest, out);
      cuts = joinCuts(head.cuts, restCuts, head.offset, head.ids.length);
    }
    this.#cache.set(segment, out.ids.slice(start, out.length), cuts);
  }

  /** Takes the ids and cuts of the rest of a segment from elsewhere; answers the ids of the whole and remembers them. */
  complete({ segment, head }: UnknownSegment, restIds: Uint32Array, restCuts: Cuts): Uint32Array {
    if (head === undefined) {
      const ids = restIds.slice();
      this.#cache.set(segment, ids, restCuts.slice());
      return ids;
    }
    const ids = new Uint32Array(head.ids.length + restIds.length);
    ids.set(head.ids);
    ids.set(restIds, head.ids.length);
    if (this.#cache.takes(segment, head)) {
      this.#cache.set(segment, ids, joinCuts(head.cuts, restCuts, head.offset, head.ids.length));
    }
    return ids;
  }

  #unknown(segment: string): UnknownSegment {
    const head = this.#cache.headOf(segment);
    return { segment, head, rest: head === undefined ? segment : segment.slice(head.offset) };
  }

  #cutsOf(text: string): Cuts | undefined {
    const bytes = Buffer.byteLength(text);
    if (bytes > this.#cutBytesLeft) return undefined;
    this.#cutBytesLeft -= bytes;
    const cuts = this.#encoder.encodeWithCuts(text, this.#scratch);
    this.#scratch.take();
    return cuts;
  }
}
