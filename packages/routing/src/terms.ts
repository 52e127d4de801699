import type { Candidates, Placement } from './candidates.ts';

/** Predicted milliseconds that one cause adds when candidate `at` takes the request. */
export type Term = (candidates: Candidates, at: number, placement: Placement) => number;

/** A scoring profile as data: terms by name with their weights, summed. */
export type Profile = readonly (readonly [name: string, weight: number, term: Term])[];

/** Blocks on the host or on disk are loaded about this many times faster than they are computed. */
const LOAD_SPEEDUP = 8;
/** Part of a decode step by which one more running sequence delays the others and is delayed. */
const STEP_SHARE = 1 / 16;

/** Prompt tokens that are computed before this request, at the worker's rate. The head of its line is partly done. */
export function queueWait(candidates: Candidates, at: number, placement: Placement): number {
  const { booked, prefillRate } = candidates.rows[at]!;
  const head = booked.oldestPrefill;
  if (head === undefined) return 0;
  const headTokens = head.promptTokens - head.cachedTokens;
  const done = Math.min(headTokens, (placement.nowMs - booked.headSinceMs) * prefillRate.value);
  return (booked.prefillTokens - done) / prefillRate.value;
}

/**
 * Until running requests make room, when the worker has no seat or no blocks left for another. Both free themselves once per
 * mean service time.
 */
export function seatWait(candidates: Candidates, at: number): number {
  const { booked, capacityBlocks, info, serviceMs } = candidates.rows[at]!;
  const seats = (booked.requests + 1 - info.maxRunning) / info.maxRunning;
  const pool = capacityBlocks * info.blockSize;
  const lack = booked.kvTokens + candidates.uncachedTokens[at]! - pool;
  const blocks = lack > 0 && booked.kvTokens > 0 ? lack / booked.kvTokens : 0;
  return Math.max(0, seats, blocks) * serviceMs.value;
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
  const { booked, decodeStepMs } = candidates.rows[at]!;
  return booked.requests * decodeStepMs.value * STEP_SHARE;
}
