import type { Candidates, Placement } from './candidates.ts';

/** Adds to `cost`, for each candidate, `weight` times the milliseconds that one cause is predicted to take or to cost. */
export type Term = (
  candidates: Candidates,
  placement: Placement,
  weight: number,
  cost: Float64Array,
) => void;

/** A scoring profile as data: terms by name with their weights, summed. */
export type Profile = readonly (readonly [name: string, weight: number, term: Term])[];

/** Blocks on the host or on disk are loaded about this many times faster than they are computed. */
const LOAD_SPEEDUP = 8;
/** Part of a decode step by which one more running sequence delays the others and is delayed. */
const STEP_SHARE = 1 / 16;

/** Prompt tokens that are computed before this request, at the worker's rate. The head of its line is partly done. */
export const queueWait: Term = ({ workers, slots, count }, { nowMs }, weight, cost) => {
  const { prefillTokens, headTokens, headSinceMs, msPerToken } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const ahead = prefillTokens[slot]!;
    if (ahead === 0) continue;
    const elapsedMs = nowMs - headSinceMs[slot]!;
    const msPer = msPerToken[slot]!;
    cost[at]! += weight * (ahead * msPer - Math.min(headTokens[slot]! * msPer, elapsedMs));
  }
};

/**
 * Until running requests make room, when the worker has no seat or no blocks left for another. Both free themselves once per
 * mean service time.
 */
export const seatWait: Term = (candidates, _placement, weight, cost) => {
  const { workers, slots, count, uncachedTokens } = candidates;
  const { requests, maxRunning, kvTokens, capacityTokens, serviceMs } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const held = kvTokens[slot]!;
    const lack = held + uncachedTokens[at]! - capacityTokens[slot]!;
    const excess = requests[slot]! + 1 - maxRunning[slot]!;
    if (lack <= 0 && excess <= 0) continue;
    const blocks = held === 0 ? 0 : lack / held;
    cost[at]! += weight * Math.max(0, blocks, excess / maxRunning[slot]!) * serviceMs[slot]!;
  }
};

/** The request's own uncached tokens at the worker's rate. */
export const ownPrefill: Term = (candidates, _placement, weight, cost) => {
  const { workers, slots, count, uncachedTokens } = candidates;
  const { msPerToken } = workers;
  for (let at = 0; at < count; at++) {
    cost[at]! += weight * uncachedTokens[at]! * msPerToken[slots[at]!]!;
  }
};

/** Blocks that lie on a lower tier and must be loaded. */
export const tierLoad: Term = (candidates, _placement, weight, cost) => {
  const { workers, slots, count, tieredBlocks, overlapBlocks } = candidates;
  if (!candidates.hasTiers) return;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const tokens = (tieredBlocks[at]! - overlapBlocks[at]!) * workers.blockSize[slot]!;
    cost[at]! += (weight * tokens * workers.msPerToken[slot]!) / LOAD_SPEEDUP;
  }
};

/** Running sequences share each engine step with the new one. */
export const decodeInterference: Term = ({ workers, slots, count }, _placement, weight, cost) => {
  const { requests, decodeStepMs } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    cost[at]! += weight * STEP_SHARE * requests[slot]! * decodeStepMs[slot]!;
  }
};
