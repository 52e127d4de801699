import { createRng } from '@busbar/base';
import type { Arrival, Workload, WorkloadDefinition } from '../workload.ts';
import { concat, randomTokens, TEMPLATE_HEAD, TEMPLATE_TAIL } from './text.ts';

/** English words are about as many tokens of Qwen3: 3,000 of them made 351.75 MB of KV at 114,688 bytes a token, which is 3,067. */
const TOKENS_PER_WORD = 1.019;
const REQUESTS = 24;
const OUTPUT_TOKENS = 64;

interface Shape {
  words: number;
  /** Requests that go out together; the next ones follow when all are answered. */
  atOnce: number;
}

/**
 * The requests with which a prefill/decode split was measured on two machines: prompts that nobody asked before, 64 tokens to each,
 * one at a time or four at once. The decode worker is of the smaller of the two machines.
 */
export function wordsWorkload({ words, atOnce }: Shape): WorkloadDefinition {
  return {
    name: `words-${words}x${atOnce}`,
    title: `prompts of ${words.toLocaleString('en')} words, ${atOnce === 1 ? 'one at a time' : `${atOnce} at once`}, 64 tokens out`,
    workers: [{ kvBlocks: 926, speed: 1 }],
    create: ({ seed }) => new Batches(words, atOnce, seed),
  };
}

class Batches implements Workload {
  readonly #words: number;
  readonly #atOnce: number;
  readonly #rng;
  #sent = 0;
  #open = 0;

  constructor(words: number, atOnce: number, seed: number) {
    this.#words = words;
    this.#atOnce = atOnce;
    this.#rng = createRng(seed);
  }

  arrivals(): Iterator<Arrival> {
    return this.#batch(0).values();
  }

  onFinished({ atMs }: { atMs: number }): Arrival[] {
    return --this.#open === 0 ? this.#batch(atMs) : [];
  }

  #batch(atMs: number): Arrival[] {
    const count = Math.min(this.#atOnce, REQUESTS - this.#sent);
    this.#open = count;
    return Array.from({ length: count }, () => this.#request(atMs));
  }

  #request(atMs: number): Arrival {
    const rng = this.#rng;
    const text = randomTokens(rng, Math.round(this.#words * TOKENS_PER_WORD));
    const request = {
      tokens: concat(TEMPLATE_HEAD, text, TEMPLATE_TAIL),
      maxTokens: OUTPUT_TOKENS,
      ignoreEos: true,
      seed: rng.u32(),
      isRepeat: false,
      tag: this.#sent++,
    };
    return { atMs, request };
  }
}

/** What `busbar simulate` runs when there are prefill workers. */
export const SPLIT_WORKLOADS: readonly WorkloadDefinition[] = [1, 4].flatMap((atOnce) =>
  [1_500, 3_000].map((words) => wordsWorkload({ words, atOnce })),
);
