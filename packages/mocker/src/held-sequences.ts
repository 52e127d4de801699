import { assert } from '@busbar/base';
import type { Sequence } from './sequence.ts';

/**
 * Sequences that hold blocks and compute nothing: those whose contents are on the way (fetching), those that have them and want a seat
 * (arrived), and those that keep them for others (staged).
 */
export class HeldSequences {
  readonly #fetching = new Map<number, Sequence>();
  readonly #staged = new Map<number, Sequence>();
  #arrived: Sequence[] = [];

  /** In the order in which they arrived. */
  get arrived(): readonly Sequence[] {
    return this.#arrived;
  }

  /** Fetching and arrived: they have a claim to run. */
  get waiting(): number {
    return this.#fetching.size + this.#arrived.length;
  }

  get size(): number {
    return this.waiting + this.#staged.size;
  }

  fetching(key: number): Sequence | undefined {
    return this.#fetching.get(key);
  }

  staged(key: number): Sequence | undefined {
    return this.#staged.get(key);
  }

  fetch(sequence: Sequence): void {
    sequence.state = 'fetching';
    this.#fetching.set(sequence.key, sequence);
  }

  arrive(sequence: Sequence): void {
    this.remove(sequence);
    sequence.state = 'arrived';
    this.#arrived.push(sequence);
  }

  stage(sequence: Sequence): void {
    sequence.state = 'staged';
    this.#staged.set(sequence.key, sequence);
  }

  remove(sequence: Sequence): void {
    this.#fetching.delete(sequence.key);
    this.#staged.delete(sequence.key);
    if (sequence.state === 'arrived') {
      this.#arrived = this.#arrived.filter((other) => other !== sequence);
    }
  }

  all(): Sequence[] {
    return [...this.#fetching.values(), ...this.#arrived, ...this.#staged.values()];
  }

  /** Throws when a sequence is in the wrong place or holds too little. */
  checkInvariants(blockSize: number): void {
    for (const sequence of this.#fetching.values()) {
      assert(sequence.state === 'fetching', 'fetching sequences fetch');
      assert(sequence.fetchesKv && sequence.outputTokens === 0, 'only a new sequence fetches');
    }
    for (const sequence of this.#arrived) {
      assert(sequence.state === 'arrived' && sequence.isDecoding, 'one token wants computing');
    }
    for (const sequence of this.#staged.values()) {
      assert(sequence.state === 'staged' && sequence.stagesKv, 'staged sequences are staged');
      assert(sequence.computedTokens === sequence.promptTokens, 'the prompt is computed');
    }
    for (const sequence of this.all()) {
      const needed = Math.ceil(sequence.promptTokens / blockSize);
      assert(sequence.blocks.length === needed, 'blocks for the whole prompt, and no more');
      assert(sequence.plannedTokens === 0, 'held sequences compute nothing');
    }
  }
}
