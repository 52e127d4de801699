import { sub64 } from './arithmetic.ts';
import { secret } from './secret.ts';
import { BASE_SEED } from './seed.ts';
import { PRIME_MX1 } from './xxh3.ts';

/*
 * The two loops that every prompt goes through. They say what `xxh3Range` says for inputs of 17 to 128 and of 16 bytes, with
 * every step written out: V8 keeps a BigInt in a register within one function, but boxes it at each call that its inlining budget leaves
 * a call, and that makes the same arithmetic ten times slower. A running sum lives in the output array for the same reason: a
 * BigInt variable that a loop carries along is boxed in every turn.
 */
const LOW_32 = 0xffffffffn;
const EVEN_BYTES = 0x00ff00ff00ff00ffn;
const EVEN_PAIRS = 0x0000ffff0000ffffn;
const SEQUENCE_BYTES = 16n;

const parentFlip = BigInt.asUintN(64, (read(24) ^ read(32)) + BASE_SEED);
const localFlip = sub64(read(40) ^ read(48), BASE_SEED);

/** Where and with what XXH3 mixes the 16-byte pieces of one input length under one seed. */
export interface MixPlan {
  bytes: number;
  /** Byte offset of each piece, in the order of the secret. */
  offsets: Int32Array;
  /** Two words of the secret for each piece, the seed added to the first and taken from the second. */
  keys: BigUint64Array;
  /** The sum before the first piece. */
  start: bigint;
}

/** Writes XXH3 of each run of `plan.bytes` bytes of `input` to `hashes`. */
export function hashPieces(input: DataView, plan: MixPlan, hashes: BigUint64Array): void {
  const { bytes, offsets, keys, start } = plan;
  for (let i = 0; i < hashes.length; i++) {
    hashes[i] = start;
    for (let mix = 0; mix < offsets.length; mix++) {
      const at = i * bytes + offsets[mix]!;
      const a = BigInt.asUintN(64, input.getBigUint64(at, true) ^ keys[2 * mix]!);
      const b = BigInt.asUintN(64, input.getBigUint64(at + 8, true) ^ keys[2 * mix + 1]!);
      const aLow = BigInt.asUintN(64, a & LOW_32);
      const aHigh = BigInt.asUintN(64, a >> 32n);
      const bLow = BigInt.asUintN(64, b & LOW_32);
      const bHigh = BigInt.asUintN(64, b >> 32n);
      const low = BigInt.asUintN(64, aLow * bLow);
      const left = BigInt.asUintN(64, aHigh * bLow);
      const right = BigInt.asUintN(64, aLow * bHigh);
      const high = BigInt.asUintN(64, aHigh * bHigh);
      const carry = BigInt.asUintN(64, BigInt.asUintN(64, low >> 32n) + right);
      const cross = BigInt.asUintN(64, carry + BigInt.asUintN(64, left & LOW_32));
      const upper = BigInt.asUintN(64, BigInt.asUintN(64, left >> 32n) + high);
      const top = BigInt.asUintN(64, upper + BigInt.asUintN(64, cross >> 32n));
      const bottom = BigInt.asUintN(64, BigInt.asUintN(64, cross << 32n) | (low & LOW_32));
      hashes[i] = BigInt.asUintN(64, hashes[i]! + BigInt.asUintN(64, top ^ bottom));
    }
    const sum = hashes[i]!;
    const flat = BigInt.asUintN(64, sum ^ BigInt.asUintN(64, sum >> 37n));
    const mixed = BigInt.asUintN(64, flat * PRIME_MX1);
    hashes[i] = BigInt.asUintN(64, mixed ^ BigInt.asUintN(64, mixed >> 32n));
  }
}

/** Turns local hashes into sequence hashes in place, from block `from` on. `sequence[0]` is the parent's, and in the end the last block's. */
export function chainHashes(hashes: BigUint64Array, from: number, sequence: BigUint64Array): void {
  for (let i = from; i < hashes.length; i++) {
    const a = BigInt.asUintN(64, sequence[0]! ^ parentFlip);
    const b = BigInt.asUintN(64, hashes[i]! ^ localFlip);
    const aLow = BigInt.asUintN(64, a & LOW_32);
    const aHigh = BigInt.asUintN(64, a >> 32n);
    const bLow = BigInt.asUintN(64, b & LOW_32);
    const bHigh = BigInt.asUintN(64, b >> 32n);
    const low = BigInt.asUintN(64, aLow * bLow);
    const left = BigInt.asUintN(64, aHigh * bLow);
    const right = BigInt.asUintN(64, aLow * bHigh);
    const high = BigInt.asUintN(64, aHigh * bHigh);
    const carry = BigInt.asUintN(64, BigInt.asUintN(64, low >> 32n) + right);
    const cross = BigInt.asUintN(64, carry + BigInt.asUintN(64, left & LOW_32));
    const upper = BigInt.asUintN(64, BigInt.asUintN(64, left >> 32n) + high);
    const top = BigInt.asUintN(64, upper + BigInt.asUintN(64, cross >> 32n));
    const bottom = BigInt.asUintN(64, BigInt.asUintN(64, cross << 32n) | (low & LOW_32));
    // The bytes of `a` in reverse order: neighbours, then pairs, then halves change places.
    const evens = BigInt.asUintN(64, (a & EVEN_BYTES) << 8n);
    const odds = BigInt.asUintN(64, BigInt.asUintN(64, a >> 8n) & EVEN_BYTES);
    const bytes = BigInt.asUintN(64, evens | odds);
    const evenPairs = BigInt.asUintN(64, (bytes & EVEN_PAIRS) << 16n);
    const oddPairs = BigInt.asUintN(64, BigInt.asUintN(64, bytes >> 16n) & EVEN_PAIRS);
    const pairs = BigInt.asUintN(64, evenPairs | oddPairs);
    const halves = BigInt.asUintN(64, pairs << 32n);
    const swapped = BigInt.asUintN(64, halves | BigInt.asUintN(64, pairs >> 32n));
    const ends = BigInt.asUintN(64, BigInt.asUintN(64, SEQUENCE_BYTES + swapped) + b);
    const sum = BigInt.asUintN(64, ends + BigInt.asUintN(64, top ^ bottom));
    const flat = BigInt.asUintN(64, sum ^ BigInt.asUintN(64, sum >> 37n));
    const mixed = BigInt.asUintN(64, flat * PRIME_MX1);
    hashes[i] = BigInt.asUintN(64, mixed ^ BigInt.asUintN(64, mixed >> 32n));
    sequence[0] = hashes[i]!;
  }
}

function read(at: number): bigint {
  return secret.getBigUint64(at, true);
}
