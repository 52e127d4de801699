import { LRUCache } from 'lru-cache';
import { ownedCopy } from '../owned-copy.ts';

/** Shorter segments cost about as much to look up as to encode. */
const MIN_CHARS = 32;
/** One segment may take at most this part of the cache. */
const MAX_SHARE = 1 / 8;
/** Key, entry and typed array apart from their contents. */
const ENTRY_BYTES = 256;

/**
 * The ids of segments encoded before, least recently used first out, bounded in bytes. Exact: a segment is the whole text
 * between two added tokens, and its ids depend on nothing else.
 */
export class SegmentCache {
  readonly #entries: LRUCache<string, Uint32Array>;
  readonly #maxEntryBytes: number;

  constructor(maxBytes: number) {
    this.#maxEntryBytes = maxBytes * MAX_SHARE;
    this.#entries = new LRUCache({ maxSize: maxBytes, maxEntrySize: this.#maxEntryBytes });
  }

  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  /** False for segments that `set` would leave out for their length. */
  takes(segment: string): boolean {
    return segment.length >= MIN_CHARS && segment.length * 2 <= this.#maxEntryBytes;
  }

  /** The ids, which the caller must not change, or undefined. */
  get(segment: string): Uint32Array | undefined {
    return this.takes(segment) ? this.#entries.get(segment) : undefined;
  }

  set(segment: string, ids: Uint32Array): void {
    const size = segment.length * 2 + ids.byteLength + ENTRY_BYTES;
    if (!this.takes(segment) || size > this.#maxEntryBytes) return;
    this.#entries.set(ownedCopy(segment), ids, { size });
  }
}
