import { assert } from '@busbar/base';
import { add64, mul64, mulFold64, sub64, swap64, xor64 } from './arithmetic.ts';
import { secret } from './secret.ts';
import { BASE_SEED } from './seed.ts';
import { PRIME_MX1, PRIME64_1, xxh3Range } from './xxh3.ts';

/** Lengths, in bytes, of the XXH3 path that the fast loop covers: blocks of 5 to 32 tokens. */
const FAST_MIN = 17;
const FAST_MAX = 128;
const SEQUENCE_BYTES = 16n;

const parentFlip = add64(read(24) ^ read(32), BASE_SEED);
const localFlip = sub64(read(40) ^ read(48), BASE_SEED);

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
  /** Byte offsets into a block in the order of the fast loop, and the seeded secret words that belong to each. */
  readonly #offsets: Int32Array;
  readonly #keys: BigUint64Array;
  readonly #start: bigint;

  constructor(blockSize: number, seed: bigint) {
    assert(Number.isInteger(blockSize) && blockSize > 0, `block size ${blockSize}`);
    this.blockSize = blockSize;
    this.#seed = BigInt.asUintN(64, seed);
    const bytes = blockSize * 4;
    this.#offsets = mixOffsets(bytes);
    this.#keys = seededKeys(this.#offsets.length, this.#seed);
    this.#start = mul64(BigInt(bytes), PRIME64_1);
  }

  /**
   * Sequence hashes of the full blocks of `tokens`. With `parent`, `tokens` begin right after that block and the chain goes on
   * from it; without, they are the start of a prompt.
   */
  hash(tokens: Uint32Array, parent?: ParentBlock): Uint32Array {
    const blocks = Math.floor(tokens.length / this.blockSize);
    // Both views share memory: the words of a little-endian u64 are low then high, and all platforms of Node are that.
    const hashes = new BigUint64Array(blocks);
    this.#hashLocal(tokens, hashes);
    if (parent === undefined) chain(hashes, 1, hashes[0] ?? 0n);
    else chain(hashes, 0, (BigInt(parent.high >>> 0) << 32n) | BigInt(parent.low >>> 0));
    return new Uint32Array(hashes.buffer);
  }

  /** Writes the local hash of each block. The running sum lives in `hashes`: a BigInt variable that loops would be boxed. */
  #hashLocal(tokens: Uint32Array, hashes: BigUint64Array): void {
    const input = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
    const bytes = this.blockSize * 4;
    const offsets = this.#offsets;
    const keys = this.#keys;
    const start = this.#start;
    const mixes = offsets.length;
    if (mixes === 0) {
      for (let i = 0; i < hashes.length; i++) {
        hashes[i] = xxh3Range(input, i * bytes, bytes, this.#seed);
      }
      return;
    }
    for (let i = 0; i < hashes.length; i++) {
      hashes[i] = start;
      for (let mix = 0; mix < mixes; mix++) {
        const at = i * bytes + offsets[mix]!;
        const low = xor64(input.getBigUint64(at, true), keys[2 * mix]!);
        const high = xor64(input.getBigUint64(at + 8, true), keys[2 * mix + 1]!);
        hashes[i] = add64(hashes[i]!, mulFold64(low, high));
      }
      const sum = hashes[i]!;
      const mixed = mul64(xor64(sum, BigInt.asUintN(64, sum >> 37n)), PRIME_MX1);
      hashes[i] = xor64(mixed, BigInt.asUintN(64, mixed >> 32n));
    }
  }
}

/** Turns local hashes into sequence hashes in place, from block `from` whose parent is `parent`. */
function chain(hashes: BigUint64Array, from: number, parent: bigint): void {
  let sequence = parent;
  for (let i = from; i < hashes.length; i++) {
    const low = xor64(sequence, parentFlip);
    const high = xor64(hashes[i]!, localFlip);
    const sum = add64(add64(add64(SEQUENCE_BYTES, swap64(low)), high), mulFold64(low, high));
    const mixed = mul64(xor64(sum, BigInt.asUintN(64, sum >> 37n)), PRIME_MX1);
    sequence = xor64(mixed, BigInt.asUintN(64, mixed >> 32n));
    hashes[i] = sequence;
  }
}

/** Where XXH3 reads its 16-byte pieces from an input of this length, in the order of the secret; none outside the fast path. */
function mixOffsets(bytes: number): Int32Array {
  if (bytes < FAST_MIN || bytes > FAST_MAX) return new Int32Array(0);
  const offsets: number[] = [];
  for (let i = 0; i < Math.ceil(bytes / 32); i++) offsets.push(16 * i, bytes - 16 * (i + 1));
  return Int32Array.from(offsets);
}

function seededKeys(mixes: number, seed: bigint): BigUint64Array {
  const keys = new BigUint64Array(mixes * 2);
  for (let i = 0; i < keys.length; i += 2) {
    keys[i] = add64(read(8 * i), seed);
    keys[i + 1] = sub64(read(8 * i + 8), seed);
  }
  return keys;
}

function read(at: number): bigint {
  return secret.getBigUint64(at, true);
}

/** Sequence hashes of the full blocks of a prompt; see `BlockHasher`, which is worth keeping where one seed serves many calls. */
export function hashBlocks(tokens: Uint32Array, blockSize: number, seed: bigint): Uint32Array {
  return new BlockHasher(blockSize, seed).hash(tokens);
}

/** The hash of one full block by itself, whatever precedes it. */
export function localBlockHash(tokens: Uint32Array, seed: bigint): bigint {
  const input = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  return xxh3Range(input, 0, tokens.byteLength, BigInt.asUintN(64, seed));
}
