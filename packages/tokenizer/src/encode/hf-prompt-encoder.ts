import { LRUCache } from 'lru-cache';
import type { EncodeFlags } from '../huggingface/hf-encoder.ts';
import type { ThreadPool } from '../thread/thread-pool.ts';
import type { PromptEncoder } from './prompt-encoder.ts';

const CACHE_BYTES = 16 * 1024 * 1024;
const ENTRY_BYTES = 256;

/**
 * Hugging Face's library in a thread, for every kind of tokenizer. Whole texts are remembered, never parts: some kinds treat
 * the first section of a text apart.
 */
export class HfPromptEncoder implements PromptEncoder {
  readonly #pool: ThreadPool;
  readonly #cache = new LRUCache<string, Uint32Array>({
    maxSize: CACHE_BYTES,
    maxEntrySize: CACHE_BYTES / 8,
    sizeCalculation: (ids, key) => key.length * 2 + ids.byteLength + ENTRY_BYTES,
  });

  /** Takes over the pool, whose threads hold the library's instance. */
  constructor(pool: ThreadPool) {
    this.#pool = pool;
  }

  encode(
    text: string,
    flags: EncodeFlags,
    signal: AbortSignal | undefined,
  ): Uint32Array | Promise<Uint32Array> {
    const key = `${Number(flags.addSpecialTokens)}${Number(flags.parseSpecial)}${text}`;
    const known = this.#cache.get(key);
    return known === undefined ? this.#encodeInThread(key, text, flags, signal) : known.slice();
  }

  async #encodeInThread(
    key: string,
    text: string,
    flags: EncodeFlags,
    signal: AbortSignal | undefined,
  ): Promise<Uint32Array> {
    const ids = await this.#pool.run('encodeText', { text, flags }, signal);
    if (!(ids instanceof Uint32Array)) throw new TypeError('a tokenizer thread gave no ids');
    this.#cache.set(key, ids);
    return ids.slice();
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }
}
