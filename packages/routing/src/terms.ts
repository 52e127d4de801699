import type { Candidates, Placement } from './candidates.ts';

/** Writes into `out`, for each candidate, the predicted milliseconds that one cause adds when it takes the request. */
export type Term = (candidates: Candidates, placement: Placement, out: Float64Array) => void;

/** A scoring profile as data: terms by name with their weights, summed. */
export type Profile = readonly (readonly [name: string, weight: number, term: Term])[];

/** Blocks on the host or on disk are loaded about this many times faster than they are computed. */
const LOAD_SPEEDUP = 8;
/** Part of a decode step by which one more running sequence delays the others and is delayed. */
const STEP_SHARE = 1 / 16;

/** Prompt tokens that are computed before this request, at the worker's rate. The head of its line is partly done. */
export function queueWait(
  { workers, slots, count }: Candidates,
  { nowMs }: Placement,
  out: Float64Array,
): void {
  const { prefillTokens, headTokens, headSinceMs, prefillTokensPerMs } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const rate = prefillTokensPerMs[slot]!;
    const done = Math.min(headTokens[slot]!, (nowMs - headSinceMs[slot]!) * rate);
    out[at] = (prefillTokens[slot]! - done) / rate;
  }
}

/**
 * Until running requests make room, when the worker has no seat or no blocks left for another. Both free themselves once per
 * mean service time.
 */
export function seatWait(
  { workers, slots, count, uncachedTokens }: Candidates,
  _placement: Placement,
  out: Float64Array,
): void {
  const { requests, maxRunning, kvTokens, capacityBlocks, blockSize, serviceMs } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const seats = (requests[slot]! + 1 - maxRunning[slot]!) / maxRunning[slot]!;
    const held = kvTokens[slot]!;
    const lack = held + uncachedTokens[at]! - capacityBlocks[slot]! * blockSize[slot]!;
    const blocks = lack > 0 && held > 0 ? lack / held : 0;
    out[at] = Math.max(0, seats, blocks) * serviceMs[slot]!;
  }
}

/** The request's own uncached tokens at the worker's rate. */
export function ownPrefill(
  { workers, slots, count, uncachedTokens }: Candidates,
  _placement: Placement,
  out: Float64Array,
): void {
  for (let at = 0; at < count; at++) {
    out[at] = uncachedTokens[at]! / workers.prefillTokensPerMs[slots[at]!]!;
  }
}

/** Blocks that lie on a lower tier and must be loaded. */
export function tierLoad(
  { workers, slots, count, tieredBlocks, overlapBlocks }: Candidates,
  _placement: Placement,
  out: Float64Array,
): void {
  for (let at = 0; at < count; at++) {
    const blocks = tieredBlocks[at]! - overlapBlocks[at]!;
    const slot = slots[at]!;
    const rate = workers.prefillTokensPerMs[slot]! * LOAD_SPEEDUP;
    out[at] = blocks === 0 ? 0 : (blocks * workers.blockSize[slot]!) / rate;
  }
}

/** Running sequences share each engine step with the new one. */
export function decodeInterference(
  { workers, slots, count }: Candidates,
  _placement: Placement,
  out: Float64Array,
): void {
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    out[at] = workers.requests[slot]! * workers.decodeStepMs[slot]! * STEP_SHARE;
  }
}
