import type { Candidates, Placement } from './candidates.ts';
import type { ReuseStats } from './working-set.ts';

/** Predicted milliseconds that one cause adds when candidate `at` takes the request. */
export type Term = (candidates: Candidates, at: number, placement: Placement) => number;

/** A scoring profile: terms by name with their weights, summed. */
export type Profile = readonly (readonly [name: string, weight: number, term: Term])[];

/** Blocks on the host or on disk are loaded about this many times faster than computed. */
const LOAD_SPEEDUP = 8;
/** Times that a reusable block is likely to be asked for again while it is in use. */
const FUTURE_USES = 15;

/** Prompt tokens that are computed before this request, at the worker's rate. The head of its line is partly done. */
export function queueWait(candidates: Candidates, at: number, placement: Placement): number {
  const { booked, prefillRate, info, serviceMs } = candidates.rows[at]!;
  const rate = prefillRate.value;
  let wait = 0;
  const head = booked.oldestPrefill;
  if (head !== undefined) {
    const headTokens = head.promptTokens - head.cachedTokens;
    const done = Math.min(headTokens, (placement.nowMs - booked.headSinceMs) * rate);
    wait = (booked.prefillTokens - done) / rate;
  }
  const excess = booked.requests - info.maxRunning;
  return excess < 0 ? wait : wait + ((excess + 1) / info.maxRunning) * serviceMs.value;
}

/** The request's own uncached tokens at the worker's rate. */
export function ownPrefill(candidates: Candidates, at: number): number {
  return candidates.uncachedTokens[at]! / candidates.rows[at]!.prefillRate.value;
}

/** Blocks that lie on a lower tier and must be loaded. */
export function tierLoad(candidates: Candidates, at: number): number {
  const blocks = candidates.tieredBlocks[at]! - candidates.overlapBlocks[at]!;
  if (blocks <= 0) return 0;
  const { info, prefillRate } = candidates.rows[at]!;
  return (blocks * info.blockSize) / (prefillRate.value * LOAD_SPEEDUP);
}

/** Running sequences share each engine step with the new one. */
export function decodeInterference(candidates: Candidates, at: number): number {
  const { booked, decodeStepMs, info } = candidates.rows[at]!;
  return (booked.requests * decodeStepMs.value * 8) / info.maxRunning;
}

/**
 * What the blocks that must go are likely to cost later. A cache in LRU order that holds less than what is in use loses far more than
 * the overflow, again and again; so each block of overflow is priced at many times its prefill, as far as blocks were seen
 * to be reused at all. Where all caches overflow the price is the same everywhere and decides nothing.
 */
export function createEvictionPrice(stats: ReuseStats): Term {
  return (candidates, at) => {
    const row = candidates.rows[at]!;
    const { blockSize } = row.info;
    const added = candidates.uncachedTokens[at]! / blockSize;
    const overflow = row.workingSet.blocks + added - row.capacityBlocks;
    if (overflow <= 0) return 0;
    const displaced = Math.min(overflow, added);
    return ((displaced * blockSize) / row.prefillRate.value) * stats.reuseRatio * FUTURE_USES;
  };
}

/** The cost of policy `predictive`. */
export function createPredictiveProfile(stats: ReuseStats): Profile {
  return [
    ['queueWaitMs', 1, queueWait],
    ['ownPrefillMs', 1, ownPrefill],
    ['tierLoadMs', 1, tierLoad],
    ['decodeInterferenceMs', 1, decodeInterference],
    ['evictionPriceMs', 1, createEvictionPrice(stats)],
  ];
}
