import type { KvIndex } from '@busbar/kv-index';
import type { HeldBlocks } from '../bookings/held-blocks.ts';
import type { SlotPool } from '../workers/slot-pool.ts';
import type { Candidates, Placement } from './candidates.ts';

/** Fills the cache columns of candidates: what the index knows of each, and what running prefills will add. */
export class OverlapReader {
  readonly #index: KvIndex;
  readonly #owners: SlotPool;
  readonly #predicted: HeldBlocks;
  #overlaps = new Uint32Array(0);

  constructor(index: KvIndex, owners: SlotPool, predicted: HeldBlocks) {
    this.#index = index;
    this.#owners = owners;
    this.#predicted = predicted;
  }

  measure(candidates: Candidates, placement: Placement): void {
    this.#match(placement);
    this.measureMore(candidates, placement);
  }

  /** The same for other candidates of the placement that was measured last. */
  measureMore(candidates: Candidates, placement: Placement): void {
    this.#readSeen(candidates);
    this.#readPredicted(candidates, placement);
    candidates.hasTiers = false;
    let cachedBlocks = candidates.overlapBlocks;
    if (candidates.workers.lowerOwners > 0) {
      this.#readTiers(candidates);
      cachedBlocks = candidates.tieredBlocks;
    }
    const { slots, count, uncachedTokens } = candidates;
    const { blockSize } = candidates.workers;
    for (let at = 0; at < count; at++) {
      const cached = cachedBlocks[at]! * blockSize[slots[at]!]!;
      // An engine computes at least the last token, however much is cached.
      uncachedTokens[at] = Math.max(1, placement.promptTokens - cached);
    }
  }

  #match(placement: Placement): void {
    if (this.#overlaps.length !== this.#owners.highWater) {
      this.#overlaps = new Uint32Array(this.#owners.highWater);
    }
    this.#index.match(placement.hashes, this.#overlaps);
  }

  #readSeen(candidates: Candidates): void {
    const { slots, count, seenBlocks } = candidates;
    const { soleOwner } = candidates.workers;
    const overlaps = this.#overlaps;
    for (let at = 0; at < count; at++) {
      const owner = soleOwner[slots[at]!]!;
      seenBlocks[at] =
        owner >= 0 ? overlaps[owner]! : longest(candidates.row(at).deviceOwners, overlaps);
    }
  }

  /** Most workers have seen nothing of a prompt, so one look at its first block answers for all of them. */
  #readPredicted(candidates: Candidates, { hashes }: Placement): void {
    const { slots, count, seenBlocks, overlapBlocks } = candidates;
    const predicted = this.#predicted;
    const isNew = predicted.isAbsent(hashes, 0);
    for (let at = 0; at < count; at++) {
      const seen = seenBlocks[at]!;
      overlapBlocks[at] = seen === 0 && isNew ? 0 : predicted.depth(slots[at]!, hashes, seen);
    }
  }

  #readTiers(candidates: Candidates): void {
    const { count, overlapBlocks, tieredBlocks } = candidates;
    for (let at = 0; at < count; at++) {
      const lower = longest(candidates.row(at).lowerOwners, this.#overlaps);
      tieredBlocks[at] = Math.max(overlapBlocks[at]!, lower);
      if (lower > overlapBlocks[at]!) candidates.hasTiers = true;
    }
  }
}

function longest(owners: readonly number[], overlaps: Uint32Array): number {
  let blocks = 0;
  for (const owner of owners) blocks = Math.max(blocks, overlaps[owner]!);
  return blocks;
}
