import { BlockHasher } from '@busbar/blocks';
import type { MockRequest } from './types.ts';

/** Block hashes of a prompt, continued over the tokens of its answer as they come. */
export class OutputChain {
  readonly #hasher: BlockHasher;
  /** Tokens of the last block, which is not full. */
  readonly #tail: Uint32Array;
  #tailTokens: number;
  #hashes: Uint32Array;
  #words: number;

  constructor(request: MockRequest, blockSize: number) {
    this.#hasher = new BlockHasher(blockSize, request.hashSeed);
    this.#tail = new Uint32Array(blockSize);
    const full = request.tokens.length - (request.tokens.length % blockSize);
    this.#tail.set(request.tokens.subarray(full));
    this.#tailTokens = request.tokens.length - full;
    this.#hashes = request.hashes;
    this.#words = (full / blockSize) * 2;
  }

  /** Two words for each full block of prompt and answer so far. */
  get hashes(): Uint32Array {
    return this.#hashes.subarray(0, this.#words);
  }

  push(token: number): void {
    this.#tail[this.#tailTokens++] = token;
    if (this.#tailTokens < this.#tail.length) return;
    this.#tailTokens = 0;
    const words = this.#words;
    const parent =
      words === 0 ? undefined : { low: this.#hashes[words - 2]!, high: this.#hashes[words - 1]! };
    const hash = this.#hasher.hash(this.#tail, parent);
    if (this.#words === this.#hashes.length) {
      const grown = new Uint32Array(this.#words + 16);
      grown.set(this.#hashes);
      this.#hashes = grown;
    }
    this.#hashes.set(hash, this.#words);
    this.#words += 2;
  }
}
