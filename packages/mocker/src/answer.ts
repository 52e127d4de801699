import { createRng, type Rng } from '@busbar/base';

const SHORTEST = 40;
const LENGTHS = 81;

/** The text of one answer, token by token: pieces of the script in an order that the seed decides. */
export class Answer {
  /** Tokens after which this answer ends by itself, 40 to 120. */
  readonly naturalTokens: number;
  readonly #script: readonly Uint32Array[];
  readonly #rng: Rng;
  #piece: Uint32Array;
  #at = 0;

  constructor(script: readonly Uint32Array[], seed: number) {
    this.#script = script;
    this.#rng = createRng(seed);
    this.naturalTokens = SHORTEST + this.#rng.int(LENGTHS);
    this.#piece = this.#pick();
  }

  next(): number {
    if (this.#at === this.#piece.length) {
      this.#piece = this.#pick();
      this.#at = 0;
    }
    return this.#piece[this.#at++]!;
  }

  #pick(): Uint32Array {
    return this.#script[this.#rng.int(this.#script.length)]!;
  }
}
