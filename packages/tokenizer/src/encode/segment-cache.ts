import { LRUCache } from 'lru-cache';
import { type Cuts, cutBytes, NO_CUTS } from '../fast/cut-points.ts';
import { ownedCopy } from '../owned-copy.ts';
import { type CutSegment, type Head, HeadIndex, keyOf, MIN_HEAD_CHARS } from './head-index.ts';

/** Shorter segments cost about as much to look up as to encode. */
const MIN_CHARS = 32;
/** One segment may take at most this part of the cache. */
const MAX_SHARE = 1 / 8;
/** Key, entry and typed array apart from their contents. */
const ENTRY_BYTES = 256;
/** Typed array, key and entry of the index of heads. */
const HEAD_BYTES = 256;
/** Of a segment whose head is known up to here the rest is cheaper to encode each time than the whole is to keep. */
const MOSTLY = 3 / 4;

export interface SegmentCacheOptions {
  readonly maxBytes: number;
  /**
   * Finds where a text may be cut, or answers undefined when that would take too long now. Absent when the model's texts may not
   * be cut, so that only whole segments are known.
   */
  readonly cutsOf: ((text: string) => Cuts | undefined) | undefined;
}

/**
 * The ids of segments encoded before, least recently used first out, bounded in bytes. Exact: a segment is the whole text
 * between two added tokens, and its ids depend on nothing else. A long segment also serves those that begin like it.
 */
export class SegmentCache {
  readonly #entries: LRUCache<string, CutSegment>;
  readonly #heads: HeadIndex | undefined;
  readonly #maxEntryBytes: number;

  constructor({ maxBytes, cutsOf }: SegmentCacheOptions) {
    this.#maxEntryBytes = maxBytes * MAX_SHARE;
    this.#heads = cutsOf === undefined ? undefined : new HeadIndex(cutsOf);
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      maxEntrySize: this.#maxEntryBytes,
      dispose: (segment) => this.#heads?.remove(segment),
    });
  }

  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  /** False for segments that `set` would leave out for their length, or because `head` covers most of them. */
  takes(segment: string, head?: Head): boolean {
    if (segment.length < MIN_CHARS || segment.length * 2 > this.#maxEntryBytes) return false;
    return head === undefined || head.offset < segment.length * MOSTLY;
  }

  /** The ids, which the caller must not change, or undefined. */
  get(segment: string): Uint32Array | undefined {
    return this.takes(segment) ? this.#entries.get(segment)?.ids : undefined;
  }

  /** What is known of the beginning of a segment that is not known whole. */
  headOf(segment: string): Head | undefined {
    if (segment.length < MIN_HEAD_CHARS) return undefined;
    const head = this.#heads?.find(segment);
    if (head !== undefined) this.#entries.get(head.source);
    return head;
  }

  /** Remembers a segment, and its cuts where they are known already. */
  set(segment: string, ids: Uint32Array, cuts?: Cuts): void {
    const isHead = this.#heads !== undefined && segment.length >= MIN_HEAD_CHARS;
    const headBytes = isHead ? cutBytes(segment.length) + HEAD_BYTES : 0;
    const size = segment.length * 2 + ids.byteLength + headBytes + ENTRY_BYTES;
    if (!this.takes(segment) || size > this.#maxEntryBytes) return;
    const text = ownedCopy(segment);
    const cutChars = cuts === undefined ? 0 : text.length;
    const key = isHead ? keyOf(text) : 0;
    const entry: CutSegment = { text, ids, key, cuts: cuts ?? NO_CUTS, cutChars, next: undefined };
    this.#entries.set(text, entry, { size });
    if (isHead) this.#heads?.add(entry);
  }
}
