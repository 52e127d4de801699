import type { KvIndex } from '@busbar/kv-index';
import { BlockLru } from './block-lru.ts';

/** Upper word of blocks that take up room but cannot be asked for: generated tokens, whose hashes a router never sees. */
const ANONYMOUS = 0xffff_ffff;

/**
 * A router's own guess of one worker's cache: the blocks of the prompts that were prefilled there, in LRU order and bounded
 * by the worker's capacity, mirrored into the index under an owner of its own.
 */
export class ApproximateCache {
  readonly owner: number;
  readonly #index: KvIndex;
  readonly #lru: BlockLru;
  #anonymous = 0;

  constructor(index: KvIndex, owner: number, capacityBlocks: number) {
    this.#index = index;
    this.owner = owner;
    this.#lru = new BlockLru(capacityBlocks);
  }

  /** Blocks believed present, those of generated tokens included. */
  get size(): number {
    return this.#lru.size;
  }

  /** Last use of the block that goes next; undefined when empty. */
  get oldestMs(): number | undefined {
    return this.#lru.size === 0 ? undefined : this.#lru.usedMsOf(this.#lru.oldest);
  }

  /**
   * The chain was used at `nowMs`. Its end is touched before its beginning, as engines free blocks, so that under pressure a
   * prefix loses its tail first.
   */
  use(hashes: Uint32Array, nowMs: number): void {
    const blocks = Math.min(hashes.length >> 1, this.#lru.capacity);
    let missing = 0;
    for (let block = 0; block < blocks; block++) {
      const node = this.#lru.find(hashes[block * 2]!, hashes[block * 2 + 1]!);
      if (node >= 0) this.#lru.touch(node, nowMs);
      else missing++;
    }
    this.#makeRoom(missing);
    const added = new Uint32Array(missing * 2);
    for (let block = blocks - 1; block >= 0; block--) {
      const low = hashes[block * 2]!;
      const high = hashes[block * 2 + 1]!;
      const node = this.#lru.find(low, high);
      if (node >= 0) {
        this.#lru.touch(node, nowMs);
        continue;
      }
      this.#lru.insert(low, high, nowMs);
      missing--;
      added[missing * 2] = low;
      added[missing * 2 + 1] = high;
    }
    if (added.length > 0) this.#index.store(this.owner, added);
  }

  /** Generated tokens filled `blocks` blocks: they push others out though nobody can ask for them here. */
  useAnonymous(blocks: number, nowMs: number): void {
    const count = Math.min(blocks, this.#lru.capacity);
    this.#makeRoom(count);
    for (let i = 0; i < count; i++) {
      this.#anonymous = (this.#anonymous + 1) >>> 0;
      const known = this.#lru.find(this.#anonymous, ANONYMOUS);
      if (known < 0) this.#lru.insert(this.#anonymous, ANONYMOUS, nowMs);
    }
  }

  /** Forgets what was last used before `beforeMs`. */
  expire(beforeMs: number): void {
    let count = 0;
    let node = this.#lru.oldest;
    while (count < this.#lru.size && this.#lru.usedMsOf(node) < beforeMs) {
      node = this.#lru.newerOf(node);
      count++;
    }
    this.#dropOldest(count);
  }

  clear(): void {
    this.#dropOldest(this.#lru.size);
  }

  #makeRoom(blocks: number): void {
    this.#dropOldest(this.#lru.size + blocks - this.#lru.capacity);
  }

  #dropOldest(count: number): void {
    if (count <= 0) return;
    const dropped = new Uint32Array(count * 2);
    for (let i = 0; i < count; i++) {
      const node = this.#lru.oldest;
      dropped[i * 2] = this.#lru.lowOf(node);
      dropped[i * 2 + 1] = this.#lru.highOf(node);
      this.#lru.drop(node);
    }
    this.#index.remove(this.owner, dropped);
  }
}
