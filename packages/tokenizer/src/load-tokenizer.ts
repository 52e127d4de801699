import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FastPromptEncoder } from './encode/fast-prompt-encoder.ts';
import { HfPromptEncoder } from './encode/hf-prompt-encoder.ts';
import { TokenizerError } from './errors.ts';
import { ModelTokenizer } from './model-tokenizer.ts';
import type { Tokenizer } from './port.ts';
import type { LoadAnswer } from './thread/entry.ts';
import { ThreadPool } from './thread/thread-pool.ts';

const MOST_THREADS_BY_DEFAULT = 2;
const OWN_MODEL = fileURLToPath(new URL('../models/busbar-small', import.meta.url));

export interface LoadTokenizerOptions {
  /** Folder with tokenizer.json. Absent: the project's own small tokenizer. */
  readonly path?: string | undefined;
  /**
   * Most threads for long texts, started only when one comes. 0 encodes on the calling thread whatever the length; a kind
   * without a fast path always has one. Default: one less than the cores, at most 2.
   */
  readonly threads?: number | undefined;
}

/**
 * Loads a tokenizer without holding the event loop: a thread parses the files, proves the fast path against Hugging Face's
 * library and hands over the tables in shared memory; what only loading needs goes away with the thread.
 * Throws TokenizerError TOKENIZER_NOT_FOUND, TOKENIZER_INVALID or TOKENIZER_FAILED.
 */
export async function loadTokenizer(options: LoadTokenizerOptions = {}): Promise<Tokenizer> {
  const threads = options.threads ?? Math.min(MOST_THREADS_BY_DEFAULT, defaultThreads());
  const folder = options.path === undefined ? OWN_MODEL : resolve(options.path);
  const data = { kind: 'folder', folder } as const;
  const loader = new ThreadPool({ data, threads: Math.max(1, threads), idleMs: Infinity });
  try {
    const answer: LoadAnswer = await loader.run('load', undefined);
    if (answer.loaded === undefined) throw new TokenizerError(answer.error, answer.message);
    const { loaded } = answer;
    if (loaded.fast === undefined) return new ModelTokenizer(loaded, new HfPromptEncoder(loader));
    await loader.close();
    const parts = { ...loaded.fast, addedTokens: loaded.addedTokens, threads };
    return new ModelTokenizer(loaded, new FastPromptEncoder(parts));
  } catch (error) {
    await loader.close();
    throw error;
  }
}

function defaultThreads(): number {
  return Math.max(1, availableParallelism() - 1);
}
