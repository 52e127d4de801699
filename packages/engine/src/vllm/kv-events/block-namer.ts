import { BlockHasher, hashSeed } from '@busbar/blocks';
import type { StoredEvent } from './events.ts';

/** A hasher is a few hundred bytes and one serves all requests of an adapter and salt; with many salts they are made anew. */
const MAX_HASHERS = 64;

/** A block by what a router can know of it. Shared by all engine hashes that mean the same. */
export interface NamedBlock {
  /** Our chained hash; undefined where more than token ids, adapter and salt went into the block, which a router cannot name. */
  readonly hash: bigint | undefined;
  /** Goes into the hashes of the blocks after this one. */
  readonly seed: bigint;
  /** Blocks before this one in its sequence. */
  readonly depth: number;
  /** Engine hashes of one tier that mean this block. */
  holders: number;
}

/** Computes our hashes of the blocks that an event tells. */
export class BlockNamer {
  readonly #blockSize: number;
  readonly #hashers = new Map<bigint, BlockHasher>();

  constructor(blockSize: number) {
    this.#blockSize = blockSize;
  }

  /** Names for the blocks of `event` from index `from` on, which follow `parent`, or begin a sequence where it is undefined. */
  name(event: StoredEvent, from: number, parent: NamedBlock | undefined): NamedBlock[] {
    const seed = parent === undefined ? rootSeed(event) : parent.seed;
    const isNameable = seed !== undefined && (parent === undefined || parent.hash !== undefined);
    const named = isNameable ? nameableUntil(event, from, parent === undefined) : from;
    const size = this.#blockSize;
    const tokens = event.tokens.subarray(from * size, named * size);
    const words = this.#hasher(seed ?? 0n).hash(tokens, wordsOf(parent?.hash));
    const depth = parent === undefined ? 0 : parent.depth + 1;
    return event.hashes.slice(from).map((_, i) => ({
      hash: from + i < named ? joined(words[2 * i]!, words[2 * i + 1]!) : undefined,
      seed: seed ?? 0n,
      depth: depth + i,
      holders: 0,
    }));
  }

  #hasher(seed: bigint): BlockHasher {
    const known = this.#hashers.get(seed);
    if (known !== undefined) return known;
    if (this.#hashers.size >= MAX_HASHERS) this.#hashers.clear();
    const hasher = new BlockHasher(this.#blockSize, seed);
    this.#hashers.set(seed, hasher);
    return hasher;
  }
}

/** The seed of a sequence by its first block; undefined where tokens, adapter and salt do not say all. */
function rootSeed(event: StoredEvent): bigint | undefined {
  if (event.hasUnnamedLora) return undefined;
  const keys = withoutLora(event.extraKeys?.[0] ?? [], event.lora);
  if (keys.length > 1) return undefined;
  const salt = keys[0];
  if (salt !== undefined && typeof salt !== 'string') return undefined;
  return hashSeed({ lora: event.lora, cacheSalt: salt });
}

/** The first block from `from` on that has inputs of its own, as an image has. The salt stands in a sequence's first block only. */
function nameableUntil(event: StoredEvent, from: number, isRoot: boolean): number {
  const { extraKeys, hashes, lora } = event;
  for (let i = isRoot ? from + 1 : from; i < hashes.length; i++) {
    if (withoutLora(extraKeys?.[i] ?? [], lora).length > 0) return i;
  }
  return hashes.length;
}

function withoutLora(keys: readonly unknown[], lora: string | undefined): readonly unknown[] {
  return lora !== undefined && keys[0] === lora ? keys.slice(1) : keys;
}

function wordsOf(hash: bigint | undefined): { low: number; high: number } | undefined {
  if (hash === undefined) return undefined;
  return { low: Number(hash & 0xffff_ffffn), high: Number(hash >> 32n) };
}

function joined(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
