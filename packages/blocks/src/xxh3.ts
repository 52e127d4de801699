import { add64, mul64, mulFold64, rotl64, sub64, swap32, swap64 } from './arithmetic.ts';
import { secret, secretWithSeed } from './secret.ts';

/** Longest input, in bytes, that is hashed in one go; longer ones run in stripes. */
const MIDDLE_MAX = 240;
const STRIPE_BYTES = 64;
const STRIPES_PER_ROUND = 16;
const LANES = 8;

const PRIME32_1 = 0x9e3779b1n;
const PRIME32_2 = 0x85ebca77n;
const PRIME32_3 = 0xc2b2ae3dn;
export const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;
export const PRIME_MX1 = 0x165667919e3779f9n;
const PRIME_MX2 = 0x9fb21c651e98df25n;
const LOW_32 = 0xffffffffn;

/**
 * XXH3-64 of `bytes` with an unsigned 64-bit seed, equal to the reference implementation for every length and seed
 * (specification: doc/xxhash_spec.md of the xxHash project). Only the low 64 bits of `seed` count.
 */
export function xxh3(bytes: Uint8Array, seed = 0n): bigint {
  const input = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return xxh3Range(input, 0, bytes.byteLength, BigInt.asUintN(64, seed));
}

/** XXH3-64 of `length` bytes of `input` from `at`; `seed` is an unsigned 64-bit value. */
export function xxh3Range(input: DataView, at: number, length: number, seed: bigint): bigint {
  if (length > MIDDLE_MAX) return hashLong(input, at, length, seed);
  if (length > 128) return hash129To240(input, at, length, seed);
  if (length > 16) return hash17To128(input, at, length, seed);
  if (length > 8) return hash9To16(input, at, length, seed);
  if (length > 3) return hash4To8(input, at, length, seed);
  if (length > 0) return hash1To3(input, at, length, seed);
  return avalanche64(seed ^ read64(secret, 56) ^ read64(secret, 64));
}

function hash1To3(input: DataView, at: number, length: number, seed: bigint): bigint {
  const first = input.getUint8(at);
  const middle = input.getUint8(at + (length >> 1));
  const last = input.getUint8(at + length - 1);
  const combined = ((first << 16) | (middle << 24) | last | (length << 8)) >>> 0;
  const flip = add64(read32(secret, 0) ^ read32(secret, 4), seed);
  return avalanche64(BigInt(combined) ^ flip);
}

function hash4To8(input: DataView, at: number, length: number, seed: bigint): bigint {
  const mixedSeed = seed ^ BigInt.asUintN(64, swap32(seed & LOW_32) << 32n);
  const flip = sub64(read64(secret, 8) ^ read64(secret, 16), mixedSeed);
  const last = read32(input, at + length - 4);
  let hash = add64(last, read32(input, at) << 32n) ^ flip;
  hash ^= rotl64(hash, 49n) ^ rotl64(hash, 24n);
  hash = mul64(hash, PRIME_MX2);
  hash ^= add64(hash >> 35n, BigInt(length));
  hash = mul64(hash, PRIME_MX2);
  return hash ^ (hash >> 28n);
}

function hash9To16(input: DataView, at: number, length: number, seed: bigint): bigint {
  const flipLow = add64(read64(secret, 24) ^ read64(secret, 32), seed);
  const flipHigh = sub64(read64(secret, 40) ^ read64(secret, 48), seed);
  const low = read64(input, at) ^ flipLow;
  const high = read64(input, at + length - 8) ^ flipHigh;
  return avalanche(add64(add64(add64(BigInt(length), swap64(low)), high), mulFold64(low, high)));
}

function hash17To128(input: DataView, at: number, length: number, seed: bigint): bigint {
  const end = at + length;
  let sum = mul64(BigInt(length), PRIME64_1);
  if (length > 32) {
    if (length > 64) {
      if (length > 96) {
        sum = add64(sum, mix16(input, at + 48, 96, seed));
        sum = add64(sum, mix16(input, end - 64, 112, seed));
      }
      sum = add64(sum, mix16(input, at + 32, 64, seed));
      sum = add64(sum, mix16(input, end - 48, 80, seed));
    }
    sum = add64(sum, mix16(input, at + 16, 32, seed));
    sum = add64(sum, mix16(input, end - 32, 48, seed));
  }
  sum = add64(sum, mix16(input, at, 0, seed));
  sum = add64(sum, mix16(input, end - 16, 16, seed));
  return avalanche(sum);
}

function hash129To240(input: DataView, at: number, length: number, seed: bigint): bigint {
  let sum = mul64(BigInt(length), PRIME64_1);
  for (let i = 0; i < 8; i++) sum = add64(sum, mix16(input, at + 16 * i, 16 * i, seed));
  sum = avalanche(sum);
  for (let i = 8; i < length >> 4; i++) {
    sum = add64(sum, mix16(input, at + 16 * i, 16 * (i - 8) + 3, seed));
  }
  return avalanche(add64(sum, mix16(input, at + length - 16, 119, seed)));
}

function hashLong(input: DataView, at: number, length: number, seed: bigint): bigint {
  const key = seed === 0n ? secret : secretWithSeed(seed);
  const lanes = new BigUint64Array([
    PRIME32_3,
    PRIME64_1,
    PRIME64_2,
    PRIME64_3,
    PRIME64_4,
    PRIME32_2,
    PRIME64_5,
    PRIME32_1,
  ]);
  const stripes = Math.floor((length - 1) / STRIPE_BYTES);
  for (let i = 0; i < stripes; i++) {
    const stripe = i % STRIPES_PER_ROUND;
    accumulate(lanes, input, at + i * STRIPE_BYTES, key, stripe * 8);
    // The last byte of the input never belongs to a whole stripe, so a full round is always followed by more input.
    if (stripe === STRIPES_PER_ROUND - 1) scramble(lanes, key);
  }
  accumulate(lanes, input, at + length - STRIPE_BYTES, key, 121);
  let hash = mul64(BigInt(length), PRIME64_1);
  for (let i = 0; i < LANES; i += 2) {
    const left = lanes[i]! ^ read64(key, 11 + 8 * i);
    const right = lanes[i + 1]! ^ read64(key, 19 + 8 * i);
    hash = add64(hash, mulFold64(left, right));
  }
  return avalanche(hash);
}

function accumulate(
  lanes: BigUint64Array,
  input: DataView,
  at: number,
  key: DataView,
  keyAt: number,
): void {
  for (let i = 0; i < LANES; i++) {
    const value = read64(input, at + 8 * i);
    const keyed = value ^ read64(key, keyAt + 8 * i);
    lanes[i ^ 1] = add64(lanes[i ^ 1]!, value);
    lanes[i] = add64(lanes[i]!, mul64(keyed & LOW_32, keyed >> 32n));
  }
}

function scramble(lanes: BigUint64Array, key: DataView): void {
  for (let i = 0; i < LANES; i++) {
    const lane = lanes[i]!;
    lanes[i] = mul64(lane ^ (lane >> 47n) ^ read64(key, 128 + 8 * i), PRIME32_1);
  }
}

function mix16(input: DataView, at: number, secretAt: number, seed: bigint): bigint {
  const low = read64(input, at) ^ add64(read64(secret, secretAt), seed);
  const high = read64(input, at + 8) ^ sub64(read64(secret, secretAt + 8), seed);
  return mulFold64(low, high);
}

function avalanche(value: bigint): bigint {
  const mixed = mul64(value ^ (value >> 37n), PRIME_MX1);
  return mixed ^ (mixed >> 32n);
}

/** The final mix of XXH64, which XXH3 keeps for its shortest inputs. */
function avalanche64(value: bigint): bigint {
  let mixed = mul64(value ^ (value >> 33n), PRIME64_2);
  mixed = mul64(mixed ^ (mixed >> 29n), PRIME64_3);
  return mixed ^ (mixed >> 32n);
}

function read32(view: DataView, at: number): bigint {
  return BigInt(view.getUint32(at, true));
}

function read64(view: DataView, at: number): bigint {
  return view.getBigUint64(at, true);
}
