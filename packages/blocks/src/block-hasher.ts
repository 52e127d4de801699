import { assert } from '@busbar/base';
import { add64, mul64, sub64 } from './arithmetic.ts';
import { chainHashes, hashPieces, type MixPlan } from './hash-loops.ts';
import { secret } from './secret.ts';
import { PRIME64_1, xxh3Range } from './xxh3.ts';

/** Lengths, in bytes, that the fast loop covers: blocks of 5 to 32 tokens. */
const FAST_MIN = 17;
const FAST_MAX = 128;

/** The place of a block in its prompt: the sequence hash of the block before it. */
export interface ParentBlock {
  low: number;
  high: number;
}

/**
 * Hashes token blocks of one size under one seed (`hashSeed`). A sequence hash names a block together with everything before it: that of
 * the first block is its local hash, XXH3 over its tokens as little-endian u32; each further one is XXH3 over the parent's
 * sequence hash and the own local hash. Only full blocks have a hash. Hashes come as two words a block, low then high.
 */
export class BlockHasher {
  readonly blockSize: number;
  readonly #seed: bigint;
  readonly #plan: MixPlan | undefined;
  readonly #sequence = new BigUint64Array(1);

  constructor(blockSize: number, seed: bigint) {
    assert(Number.isInteger(blockSize) && blockSize > 0, `block size ${blockSize}`);
    this.blockSize = blockSize;
    this.#seed = BigInt.asUintN(64, seed);
    this.#plan = planOf(blockSize * 4, this.#seed);
  }

  /**
   * Sequence hashes of the full blocks of `tokens`. With `parent`, `tokens` begin right after that block and the chain goes on
   * from it; without, they are the start of a prompt.
   */
  hash(tokens: Uint32Array, parent?: ParentBlock): Uint32Array {
    // Both views share memory: the words of a little-endian u64 are low then high, and all platforms of Node are that.
    const hashes = new BigUint64Array(Math.floor(tokens.length / this.blockSize));
    this.#hashLocal(tokens, hashes);
    if (parent === undefined) {
      this.#sequence[0] = hashes[0] ?? 0n;
      chainHashes(hashes, 1, this.#sequence);
    } else {
      this.#sequence[0] = (BigInt(parent.high >>> 0) << 32n) | BigInt(parent.low >>> 0);
      chainHashes(hashes, 0, this.#sequence);
    }
    return new Uint32Array(hashes.buffer);
  }

  #hashLocal(tokens: Uint32Array, hashes: BigUint64Array): void {
    const input = viewOf(tokens);
    if (this.#plan !== undefined) {
      hashPieces(input, this.#plan, hashes);
      return;
    }
    const bytes = this.blockSize * 4;
    for (let i = 0; i < hashes.length; i++) {
      hashes[i] = xxh3Range(input, i * bytes, bytes, this.#seed);
    }
  }
}

/** Sequence hashes of the full blocks of a prompt; see `BlockHasher`, which is worth keeping where one seed serves many calls. */
export function hashBlocks(tokens: Uint32Array, blockSize: number, seed: bigint): Uint32Array {
  return new BlockHasher(blockSize, seed).hash(tokens);
}

/** The hash of one full block by itself, whatever precedes it. */
export function localBlockHash(tokens: Uint32Array, seed: bigint): bigint {
  return xxh3Range(viewOf(tokens), 0, tokens.byteLength, BigInt.asUintN(64, seed));
}

function viewOf(tokens: Uint32Array): DataView {
  return new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
}

/** XXH3 takes pieces from both ends of the input by turns, the innermost last; the order of a sum does not matter. */
function planOf(bytes: number, seed: bigint): MixPlan | undefined {
  if (bytes < FAST_MIN || bytes > FAST_MAX) return undefined;
  const offsets: number[] = [];
  const keys: bigint[] = [];
  for (let pair = 0; pair < Math.ceil(bytes / 32); pair++) {
    offsets.push(16 * pair, bytes - 16 * (pair + 1));
  }
  for (let piece = 0; piece < offsets.length; piece++) {
    keys.push(add64(secret.getBigUint64(16 * piece, true), seed));
    keys.push(sub64(secret.getBigUint64(16 * piece + 8, true), seed));
  }
  return {
    bytes,
    offsets: Int32Array.from(offsets),
    keys: BigUint64Array.from(keys),
    start: mul64(BigInt(bytes), PRIME64_1),
  };
}
