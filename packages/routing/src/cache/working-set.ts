import { BlockLru } from './block-lru.ts';
import type { ReuseStats } from './reuse-stats.ts';

/** Blocks tracked of one worker; of bigger caches every n-th block of a chain stands for n, so that a decision stays cheap. */
const TRACKED = 1024;
/** How far beyond its capacity the demand on a worker is followed. */
const REACH = 2;

/**
 * Which blocks were lately asked for on one worker: what its cache must hold so that nobody computes them twice. It is demand,
 * not content: a block that was evicted and is still asked for counts.
 */
export class WorkingSet {
  readonly #lru: BlockLru;
  readonly #capacity: number;
  readonly #stride: number;
  #reusedNodes = 0;
  readonly #reuse: ReuseStats;
  #doubtful = 0;

  constructor(capacityBlocks: number, reuse: ReuseStats) {
    this.#reuse = reuse;
    reuse.workers++;
    reuse.capacityBlocks += capacityBlocks;
    this.#capacity = capacityBlocks;
    let stride = 1;
    while ((capacityBlocks * REACH) / stride > TRACKED) stride *= 2;
    this.#stride = stride;
    this.#lru = new BlockLru(Math.ceil((capacityBlocks * REACH) / stride));
  }

  /** Distinct blocks asked for within the horizon. */
  get blocks(): number {
    return this.#lru.size * this.#stride;
  }

  /** Leading blocks of the chain that are in the set. Ends are dropped before beginnings, so a binary search finds them. */
  depth(hashes: Uint32Array): number {
    const blocks = hashes.length >> 1;
    const first = this.#firstSample(hashes);
    if (first >= blocks || !this.#has(hashes, first)) return 0;
    let known = 0;
    let unknown = Math.ceil((blocks - first) / this.#stride);
    while (unknown - known > 1) {
      const middle = (known + unknown) >> 1;
      if (this.#has(hashes, first + middle * this.#stride)) known = middle;
      else unknown = middle;
    }
    return Math.min(blocks, (known + 1) * this.#stride);
  }

  /** A request with this chain was placed here. Its end is touched before its beginning, as caches free it. */
  use(hashes: Uint32Array, nowMs: number): void {
    this.expire(nowMs);
    const blocks = hashes.length >> 1;
    const first = this.#firstSample(hashes);
    let reuses = 0;
    let firstReuses = 0;
    let ageMs = 0;
    const samples = Math.ceil((blocks - first) / this.#stride);
    for (let sample = samples - 1; sample >= 0; sample--) {
      const at = (first + sample * this.#stride) * 2;
      const node = this.#lru.find(hashes[at]!, hashes[at + 1]!);
      if (node < 0) {
        if (this.#lru.size >= this.#lru.capacity) this.#dropOldest();
        this.#lru.insert(hashes[at]!, hashes[at + 1]!, nowMs);
        continue;
      }
      reuses++;
      ageMs += nowMs - this.#lru.usedMsOf(node);
      if (this.#lru.usesOf(node) === 1) firstReuses++;
      this.#lru.touch(node, nowMs);
    }
    this.#reusedNodes += firstReuses;
    if (samples > 0) this.#reuse.onRequest(reuses / samples);
    if (reuses > 0) this.#reuse.onReuse(firstReuses * this.#stride, ageMs / reuses);
    this.#tellDoubt();
  }

  /** Drops what was not asked for within the horizon. */
  expire(nowMs: number): void {
    const beforeMs = nowMs - this.#reuse.horizonMs;
    const size = this.#lru.size;
    while (this.#lru.size > 0 && this.#lru.usedMsOf(this.#lru.oldest) < beforeMs) {
      this.#dropOldest();
    }
    if (this.#lru.size < size) this.#tellDoubt();
  }

  /** The worker left: its capacity and its doubts go with it. */
  dispose(): void {
    this.#reuse.workers--;
    this.#reuse.capacityBlocks -= this.#capacity;
    this.#reuse.doubtfulBlocks -= this.#doubtful;
    this.#doubtful = 0;
  }

  /** Chains begin their samples at different blocks, so that short ones count right in the mean. */
  #firstSample(hashes: Uint32Array): number {
    return hashes.length === 0 ? 0 : hashes[0]! & (this.#stride - 1);
  }

  #has(hashes: Uint32Array, block: number): boolean {
    return this.#lru.find(hashes[block * 2]!, hashes[block * 2 + 1]!) >= 0;
  }

  #dropOldest(): void {
    const node = this.#lru.oldest;
    if (this.#lru.usesOf(node) === 1) this.#reuse.onWasted(this.#stride);
    else this.#reusedNodes--;
    this.#lru.drop(node);
  }

  /** Blocks beyond the capacity that were used once are about to prove useless: the cache has dropped them unused. */
  #tellDoubt(): void {
    const beyond = Math.max(0, this.blocks - this.#capacity);
    const usedOnce = beyond === 0 ? 0 : 1 - this.#reusedNodes / this.#lru.size;
    this.#reuse.doubtfulBlocks += beyond * usedOnce - this.#doubtful;
    this.#doubtful = beyond * usedOnce;
  }
}
