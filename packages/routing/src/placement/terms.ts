import type { WorkerColumns } from '../workers/worker-columns.ts';
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
  const { waitingTokens, headEndsMs, msPerToken } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const headMs = Math.max(0, headEndsMs[slot]! - nowMs);
    cost[at]! += weight * (headMs + waitingTokens[slot]! * msPerToken[slot]!);
  }
};

/**
 * Until running requests make room, when the worker has no seat or no blocks left for another. Both free themselves once per
 * mean service time.
 */
export const seatWait: Term = (candidates, _placement, weight, cost) => {
  const { workers, slots, count, uncachedTokens } = candidates;
  const { freeSeats, freeTokens, maxRunning, capacityTokens, serviceMs } = workers;
  if (mostLacking(candidates, freeTokens) <= 0 && fewest(candidates, freeSeats) >= 1) return;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const lack = uncachedTokens[at]! - freeTokens[slot]!;
    const held = capacityTokens[slot]! - freeTokens[slot]!;
    const blocks = held > 0 ? lack / held : 0;
    const seats = (1 - freeSeats[slot]!) / maxRunning[slot]!;
    cost[at]! += weight * Math.max(0, blocks, seats) * serviceMs[slot]!;
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

/**
 * Every step takes a base time, whatever it computes. This is the part of it that `tokens` at the worker's rate of prefill leave out: the
 * rate is a mean over steps of so many tokens, each with its base. A short prompt takes a whole step, a long one as long as its tokens.
 */
export function baseStepMs(workers: WorkerColumns, slot: number, tokens: number): number {
  return workers.decodeStepMs[slot]! * Math.max(0, 1 - tokens / workers.stepTokens[slot]!);
}

/** The base of the step that computes the request's own tokens, as far as the rate leaves it out. */
export const baseStep: Term = (
  { workers, slots, count, uncachedTokens },
  _placement,
  weight,
  cost,
) => {
  for (let at = 0; at < count; at++) {
    cost[at]! += weight * baseStepMs(workers, slots[at]!, uncachedTokens[at]!);
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

/**
 * The most that any candidate's uncached tokens exceed its room. Without a branch in the loop this is several times cheaper than
 * to look at each candidate, and mostly there is nothing to look at.
 */
export function mostLacking(
  { slots, count, uncachedTokens }: Candidates,
  room: Float64Array,
): number {
  let most = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < count; at++) most = Math.max(most, uncachedTokens[at]! - room[slots[at]!]!);
  return most;
}

function fewest({ slots, count }: Candidates, column: Float64Array): number {
  let least = Number.POSITIVE_INFINITY;
  for (let at = 0; at < count; at++) least = Math.min(least, column[slots[at]!]!);
  return least;
}
