import { createRng } from '@busbar/base';
import { BlockHasher } from '@busbar/blocks';

/** Blocks are made, sent and checked in slices of this size: a slice and its noise stay in the processor's cache. */
const SLICE_BYTES = 65_536;
const STAMP_BYTES = 16;
/** A power of two, several slices long, so that neighbouring slices differ. */
const NOISE_BYTES = 1_048_576;

const noise = makeNoise();

/** Noise that every process has alike; windows of it make the contents of all blocks. */
function makeNoise(): Buffer {
  const rng = createRng(0x6b76);
  const words = new Uint32Array((NOISE_BYTES + SLICE_BYTES) / 4);
  for (let at = 0; at < words.length; at++) words[at] = rng.u32();
  return Buffer.from(words.buffer);
}

/** A slice of `bytes` noise bytes, at most 64 KiB, for what needs bytes and no contents. */
export function noiseSlice(bytes: number): Buffer {
  return noise.subarray(0, Math.min(bytes, SLICE_BYTES));
}

/**
 * The contents that stand for the KV of one block: a function of its sequence hash and length. Each slice begins with the hash and
 * its number, and goes on with a window of noise that both choose.
 */
export class BlockContent {
  readonly bytes: number;
  readonly #low: number;
  readonly #high: number;

  constructor(low: number, high: number, bytes: number) {
    this.#low = low;
    this.#high = high;
    this.bytes = bytes;
  }

  get slices(): number {
    return Math.ceil(this.bytes / SLICE_BYTES);
  }

  /** Stamp and noise of slice `at`. The noise is shared: nobody may write into it. */
  slice(at: number): readonly [stamp: Buffer, window: Buffer] {
    const length = Math.min(SLICE_BYTES, this.bytes - at * SLICE_BYTES);
    const stamp = Buffer.allocUnsafe(STAMP_BYTES);
    stamp.writeUInt32LE(this.#low, 0);
    stamp.writeUInt32LE(this.#high, 4);
    stamp.writeUInt32LE(at, 8);
    stamp.writeUInt32LE(this.bytes, 12);
    const from = this.#windowStart(at);
    return [
      stamp.subarray(0, Math.min(length, STAMP_BYTES)),
      noise.subarray(from, from + Math.max(0, length - STAMP_BYTES)),
    ];
  }

  /** Whether `received` is what the block has from `offset` on. */
  matches(offset: number, received: Buffer): boolean {
    if (offset + received.length > this.bytes) return false;
    for (let done = 0; done < received.length; ) {
      const at = Math.floor((offset + done) / SLICE_BYTES);
      let skip = (offset + done) % SLICE_BYTES;
      for (const piece of this.slice(at)) {
        const length = Math.min(piece.length - skip, received.length - done);
        if (length <= 0) {
          skip -= piece.length;
          continue;
        }
        if (piece.compare(received, done, done + length, skip, skip + length) !== 0) return false;
        done += length;
        skip = 0;
      }
    }
    return true;
  }

  #windowStart(at: number): number {
    const mixed = Math.imul(this.#low ^ Math.imul(at + 1, 0x9e3779b1), 0x85ebca6b) ^ this.#high;
    return (mixed ^ (mixed >>> 15)) & (NOISE_BYTES - 1);
  }
}

/** Two words for each block of a prompt, full or not: the hashes of the full ones, and one more for the tokens behind them. */
export function transferHashes(
  tokens: Uint32Array,
  hashes: Uint32Array,
  blockSize: number,
  seed: bigint,
): Uint32Array {
  const tail = tokens.subarray((hashes.length / 2) * blockSize);
  if (tail.length === 0) return hashes;
  const low = hashes.at(-2);
  const high = hashes.at(-1);
  const parent = low === undefined || high === undefined ? undefined : { low, high };
  const all = new Uint32Array(hashes.length + 2);
  all.set(hashes);
  all.set(new BlockHasher(tail.length, seed).hash(tail, parent), hashes.length);
  return all;
}
