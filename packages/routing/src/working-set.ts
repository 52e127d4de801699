import { BlockLru } from './block-lru.ts';

/** Blocks tracked of one worker; bigger caches are sampled by hash so that a decision stays cheap. */
const TRACKED = 4096;

/** What is known about reuse over all workers; each working set reports to it and reads it. */
export class ReuseStats {
  /** Mean time between two uses of a block, milliseconds; 0 while no reuse was seen. */
  intervalMs = 0;
  #reused: number;
  #wasted = 0;
  #total: number;

  constructor(priorBlocks = 1000) {
    this.#reused = priorBlocks;
    this.#total = priorBlocks;
  }

  /** Share of new blocks that are asked for again. Near 1 until blocks were seen to go unused. */
  get reuseRatio(): number {
    return this.#reused / (this.#reused + this.#wasted);
  }

  /** Blocks not used for longer are taken for dead. */
  get horizonMs(): number {
    return this.intervalMs === 0 ? Number.POSITIVE_INFINITY : this.intervalMs * 4;
  }

  onReuse(blocks: number, firstReuses: number, meanAgeMs: number): void {
    if (blocks > 0) {
      const weight = this.intervalMs === 0 ? 1 : 0.05;
      this.intervalMs += weight * (meanAgeMs - this.intervalMs);
    }
    this.#reused += firstReuses;
    this.#forget();
  }

  onWasted(blocks: number): void {
    this.#wasted += blocks;
    this.#forget();
  }

  #forget(): void {
    const sum = this.#reused + this.#wasted;
    if (sum <= this.#total * 2) return;
    this.#reused /= 2;
    this.#wasted /= 2;
  }
}

/** Which blocks were lately asked for on one worker: what its cache must hold so that nobody computes twice. */
export class WorkingSet {
  readonly #lru: BlockLru;
  readonly #shift: number;
  readonly #mask: number;
  #reusedBlocks = 0;

  constructor(capacityBlocks: number) {
    let shift = 0;
    while (capacityBlocks >> shift > TRACKED) shift++;
    this.#shift = shift;
    this.#mask = 2 ** shift - 1;
    this.#lru = new BlockLru(capacityBlocks >> shift);
  }

  /** Distinct blocks used within the horizon, at most the capacity. */
  get blocks(): number {
    return this.#lru.size << this.#shift;
  }

  /** Those used more than once. */
  get reusedBlocks(): number {
    return this.#reusedBlocks << this.#shift;
  }

  /** A request with this chain was placed. Its end is touched first, as caches free it. */
  use(hashes: Uint32Array, nowMs: number, stats: ReuseStats): void {
    this.expire(nowMs, stats);
    let reuses = 0;
    let firstReuses = 0;
    let ageMs = 0;
    for (let at = hashes.length - 2; at >= 0; at -= 2) {
      const low = hashes[at]!;
      // The table is addressed by the low word, so the sample is taken from the high one.
      const high = hashes[at + 1]!;
      if ((high & this.#mask) !== 0) continue;
      const node = this.#lru.find(low, high);
      if (node >= 0) {
        reuses++;
        ageMs += nowMs - this.#lru.usedMsOf(node);
        if (this.#lru.usesOf(node) === 1) {
          firstReuses++;
          this.#reusedBlocks++;
        }
        this.#lru.touch(node, nowMs);
        continue;
      }
      if (this.#lru.size >= this.#lru.capacity) this.#dropOldest(stats);
      this.#lru.insert(low, high, nowMs);
    }
    if (reuses > 0) stats.onReuse(reuses, firstReuses, ageMs / reuses);
  }

  /** Drops what is older than the horizon. */
  expire(nowMs: number, stats: ReuseStats): void {
    const before = nowMs - stats.horizonMs;
    while (this.#lru.size > 0 && this.#lru.usedMsOf(this.#lru.oldest) < before) {
      this.#dropOldest(stats);
    }
  }

  #dropOldest(stats: ReuseStats): void {
    const node = this.#lru.oldest;
    if (this.#lru.usesOf(node) === 1) stats.onWasted(1);
    else this.#reusedBlocks--;
    this.#lru.drop(node);
  }
}
