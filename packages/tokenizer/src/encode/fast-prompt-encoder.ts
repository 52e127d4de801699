import { AddedTokenSplitter, type Section } from '../added-token-splitter.ts';
import { FastEncoder } from '../fast/fast-encoder.ts';
import type { FastModel } from '../fast/fast-model.ts';
import type { Frame } from '../fast/self-check.ts';
import type { EncodeFlags } from '../huggingface/hf-encoder.ts';
import type { AddedToken } from '../huggingface/tokenizer-json.ts';
import { IdBuffer } from '../id-buffer.ts';
import { ThreadPool } from '../thread/thread-pool.ts';
import type { PromptEncoder } from './prompt-encoder.ts';
import { SegmentEncoder, type UnknownSegment } from './segment-encoder.ts';

/** UTF-8 bytes of unknown text that take the calling thread at most about 8 ms: measured, the worst is Han without spaces. */
const INLINE_MAX_BYTES = 16 * 1024;
/** A text with more sections than this costs milliseconds to cut and join, whatever is in them. */
const INLINE_MAX_SECTIONS = 10_000;
const CACHE_BYTES = 16 * 1024 * 1024;
/** A thread of the fast path is cheap to start again, so that memory goes back. */
const THREAD_IDLE_MS = 30_000;

export interface FastPromptEncoderOptions {
  readonly model: FastModel;
  readonly frame: Frame;
  readonly addedTokens: readonly AddedToken[];
  /** Whether the beginning of one segment may serve another. */
  readonly knowsHeads: boolean;
  /** 0 encodes everything on the calling thread. */
  readonly threads: number;
}

/** The different segments of one text; those in `known` need no encoding any more. */
interface LookedUp {
  readonly known: Map<string, Uint32Array>;
  readonly unknown: ReadonlyMap<string, UnknownSegment>;
}

/** The proven fast path: what is known from the cache, short rests inline, more than 16 KiB of unknown text in a thread. */
export class FastPromptEncoder implements PromptEncoder {
  readonly #segments: SegmentEncoder;
  readonly #parsing: AddedTokenSplitter;
  readonly #plain: AddedTokenSplitter;
  readonly #frame: Frame;
  readonly #out = new IdBuffer();
  readonly #pool: ThreadPool | undefined;

  constructor(options: FastPromptEncoderOptions) {
    const { model, frame, addedTokens, knowsHeads, threads } = options;
    const encoder = new FastEncoder(model);
    this.#segments = new SegmentEncoder(encoder, {
      maxBytes: CACHE_BYTES,
      knowsHeads,
      ...(threads > 0 ? { cutBytes: INLINE_MAX_BYTES } : {}),
    });
    this.#frame = frame;
    this.#parsing = new AddedTokenSplitter(addedTokens);
    this.#plain = new AddedTokenSplitter(addedTokens.filter((token) => !token.special));
    const data = { kind: 'fast', model, addedTokens } as const;
    this.#pool =
      threads > 0 ? new ThreadPool({ data, threads, idleMs: THREAD_IDLE_MS }) : undefined;
  }

  encode(
    text: string,
    flags: EncodeFlags,
    signal: AbortSignal | undefined,
  ): Uint32Array | Promise<Uint32Array> {
    const splitter = flags.parseSpecial ? this.#parsing : this.#plain;
    const pool = this.#pool;
    this.#segments.beginText();
    if (pool === undefined) return this.#assemble(splitter.split(text), flags);
    const sections = splitter.split(text, INLINE_MAX_SECTIONS);
    if (sections === undefined) return this.#encodeWhole(pool, text, flags, signal);
    // No UTF-16 unit takes more than three bytes, so that most texts need no counting.
    if (text.length * 3 > INLINE_MAX_BYTES) {
      const lookedUp = this.#lookUp(sections);
      if (byteLength(lookedUp.unknown) > INLINE_MAX_BYTES) {
        return this.#encodeUnknown(pool, lookedUp, signal).then(() =>
          this.#assemble(sections, flags, lookedUp),
        );
      }
      return this.#assemble(sections, flags, lookedUp);
    }
    return this.#assemble(sections, flags);
  }

  async close(): Promise<void> {
    await this.#pool?.close();
  }

  #lookUp(sections: readonly Section[]): LookedUp {
    const known = new Map<string, Uint32Array>();
    const unknown = new Map<string, UnknownSegment>();
    for (const section of sections) {
      if (typeof section === 'number' || known.has(section) || unknown.has(section)) continue;
      const found = this.#segments.lookUp(section);
      if (found instanceof Uint32Array) known.set(section, found);
      else unknown.set(section, found);
    }
    return { known, unknown };
  }

  /** Encodes `unknown` in a thread and adds it to `known`. */
  async #encodeUnknown(
    pool: ThreadPool,
    { known, unknown }: LookedUp,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const rests = Array.from(unknown.values(), ({ rest }) => rest);
    const packed = await pool.run<Uint32Array>('encodeSegments', rests, signal);
    let at = 0;
    let start = unknown.size * 2;
    for (const segment of unknown.values()) {
      const [idsEnd, cutsEnd] = packed.subarray(at * 2, at * 2 + 2);
      const ids = packed.subarray(start, idsEnd);
      const cuts = packed.subarray(idsEnd, cutsEnd);
      known.set(segment.segment, this.#segments.complete(segment, ids, cuts));
      start = cutsEnd!;
      at++;
    }
  }

  async #encodeWhole(
    pool: ThreadPool,
    text: string,
    { parseSpecial, addSpecialTokens }: EncodeFlags,
    signal: AbortSignal | undefined,
  ): Promise<Uint32Array> {
    const ids = await pool.run<Uint32Array>('encodeWhole', { text, parseSpecial }, signal);
    if (!addSpecialTokens) return ids;
    const { prefix, suffix } = this.#frame;
    const framed = new Uint32Array(prefix.length + ids.length + suffix.length);
    framed.set(prefix);
    framed.set(ids, prefix.length);
    framed.set(suffix, prefix.length + ids.length);
    return framed;
  }

  #assemble(
    sections: readonly Section[],
    { addSpecialTokens }: EncodeFlags,
    lookedUp?: LookedUp,
  ): Uint32Array {
    const out = this.#out;
    if (addSpecialTokens) out.append(this.#frame.prefix);
    for (const section of sections) {
      if (typeof section === 'number') {
        out.push(section);
        continue;
      }
      const ids = lookedUp?.known.get(section);
      if (ids !== undefined) out.append(ids);
      else this.#segments.encodeInto(section, out, lookedUp?.unknown.get(section));
    }
    if (addSpecialTokens) out.append(this.#frame.suffix);
    return out.take();
  }
}

function byteLength(unknown: LookedUp['unknown']): number {
  let bytes = 0;
  for (const { rest } of unknown.values()) bytes += Buffer.byteLength(rest);
  return bytes;
}
