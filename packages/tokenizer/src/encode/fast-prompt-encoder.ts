import { AddedTokenSplitter, type Section } from '../added-token-splitter.ts';
import { FastEncoder } from '../fast/fast-encoder.ts';
import type { FastModel } from '../fast/fast-model.ts';
import type { Frame } from '../fast/self-check.ts';
import type { EncodeFlags } from '../huggingface/hf-encoder.ts';
import type { AddedToken } from '../huggingface/tokenizer-json.ts';
import { IdBuffer } from '../id-buffer.ts';
import { ThreadPool } from '../thread/thread-pool.ts';
import type { PromptEncoder } from './prompt-encoder.ts';
import { SegmentCache } from './segment-cache.ts';

/** UTF-8 bytes that take the main thread at most about 8 ms on a slow core: measured, see the README. */
const INLINE_MAX_BYTES = 24 * 1024;
const CACHE_BYTES = 32 * 1024 * 1024;
/** A thread of the fast path is cheap to start again, so that memory goes back. */
const THREAD_IDLE_MS = 30_000;

export interface FastPromptEncoderOptions {
  readonly model: FastModel;
  readonly frame: Frame;
  readonly addedTokens: readonly AddedToken[];
  /** 0 encodes everything on the calling thread. */
  readonly threads: number;
}

/** The proven fast path: segments from the cache, short ones inline, more than 24 KiB of unknown text in a thread. */
export class FastPromptEncoder implements PromptEncoder {
  readonly #encoder: FastEncoder;
  readonly #parsing: AddedTokenSplitter;
  readonly #plain: AddedTokenSplitter;
  readonly #frame: Frame;
  readonly #cache = new SegmentCache(CACHE_BYTES);
  readonly #out = new IdBuffer();
  readonly #pool: ThreadPool | undefined;

  constructor(options: FastPromptEncoderOptions) {
    const { model, frame, addedTokens, threads } = options;
    this.#encoder = new FastEncoder(model);
    this.#frame = frame;
    this.#parsing = new AddedTokenSplitter(addedTokens);
    this.#plain = new AddedTokenSplitter(addedTokens.filter((token) => !token.special));
    const data = { kind: 'fast', model } as const;
    this.#pool =
      threads > 0 ? new ThreadPool({ data, threads, idleMs: THREAD_IDLE_MS }) : undefined;
  }

  encode(
    text: string,
    flags: EncodeFlags,
    signal: AbortSignal | undefined,
  ): Uint32Array | Promise<Uint32Array> {
    const sections = (flags.parseSpecial ? this.#parsing : this.#plain).split(text);
    const pool = this.#pool;
    if (pool !== undefined && text.length * 3 > INLINE_MAX_BYTES) {
      const { known, unknown } = this.#lookUp(sections);
      if (byteLength(unknown) > INLINE_MAX_BYTES) {
        return this.#encodeInThread(pool, unknown, known, signal).then(() =>
          this.#assemble(sections, flags, (segment) => known.get(segment)!),
        );
      }
    }
    return this.#assemble(sections, flags, (segment) => this.#encodeSegment(segment));
  }

  async close(): Promise<void> {
    await this.#pool?.close();
  }

  #lookUp(sections: readonly Section[]): { known: Map<string, Uint32Array>; unknown: string[] } {
    const known = new Map<string, Uint32Array>();
    const unknown = new Set<string>();
    for (const section of sections) {
      if (typeof section === 'number' || known.has(section)) continue;
      const ids = this.#cache.get(section);
      if (ids === undefined) unknown.add(section);
      else known.set(section, ids);
    }
    return { known, unknown: [...unknown] };
  }

  /** Encodes `unknown` and adds it to `known`. */
  async #encodeInThread(
    pool: ThreadPool,
    unknown: readonly string[],
    known: Map<string, Uint32Array>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const packed = await pool.run('encodeSegments', unknown, signal);
    if (!(packed instanceof Uint32Array)) throw new TypeError('a tokenizer thread gave no ids');
    let start = unknown.length;
    for (const [at, segment] of unknown.entries()) {
      const ids = packed.slice(start, packed[at]);
      known.set(segment, ids);
      this.#cache.set(segment, ids);
      start += ids.length;
    }
  }

  #assemble(
    sections: readonly Section[],
    { addSpecialTokens }: EncodeFlags,
    idsOf: (segment: string) => Uint32Array,
  ): Uint32Array {
    const parts = sections.map((section) =>
      typeof section === 'string' ? idsOf(section) : section,
    );
    return addSpecialTokens
      ? joinIds([this.#frame.prefix, ...parts, this.#frame.suffix])
      : joinIds(parts);
  }

  #encodeSegment(segment: string): Uint32Array {
    const known = this.#cache.get(segment);
    if (known !== undefined) return known;
    this.#encoder.encodeInto(segment, this.#out);
    const ids = this.#out.take();
    this.#cache.set(segment, ids);
    return ids;
  }
}

function joinIds(parts: readonly (number | Uint32Array)[]): Uint32Array {
  let length = 0;
  for (const part of parts) length += typeof part === 'number' ? 1 : part.length;
  const ids = new Uint32Array(length);
  let at = 0;
  for (const part of parts) {
    if (typeof part === 'number') {
      ids[at++] = part;
    } else {
      ids.set(part, at);
      at += part.length;
    }
  }
  return ids;
}

function byteLength(segments: readonly string[]): number {
  let bytes = 0;
  for (const segment of segments) bytes += Buffer.byteLength(segment);
  return bytes;
}
