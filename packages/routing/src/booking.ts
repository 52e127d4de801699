import type { WorkerRow } from './worker-row.ts';

/** One placed request, from the decision until it ended or was forgotten. */
export interface Booking {
  readonly decisionId: string;
  readonly routerId: string;
  readonly frontendId: string;
  readonly row: WorkerRow;
  /** Two words a block; kept by reference until the request ends. */
  readonly hashes: Uint32Array;
  readonly promptTokens: number;
  /** Prompt tokens expected in the cache when the request runs. */
  readonly cachedTokens: number;
  /** Those of them that were really there at the decision, not only predicted. */
  readonly seenTokens: number;
  /** Output tokens expected of it. */
  readonly outputTokens: number;
  /** Blocks from here on are held as predicted while the prefill lasts. */
  readonly predictedFrom: number;
  readonly bookedMs: number;
  isPrefilling: boolean;
  /** Its blocks still count as predicted. */
  isPredicted: boolean;
  /** List of all bookings in order of time. */
  older: Booking | undefined;
  newer: Booking | undefined;
  /** List of the worker's bookings without a first token. */
  olderPrefill: Booking | undefined;
  newerPrefill: Booking | undefined;
}

/** Prompt tokens that the worker must compute for this request. */
export function uncachedTokens(booking: Booking): number {
  return booking.promptTokens - booking.cachedTokens;
}

/** Longest answer that is expected of anybody who did not ask for less. */
const USUAL_OUTPUT_TOKENS = 128;

export function expectedOutput(maxTokens: number): number {
  return Math.min(USUAL_OUTPUT_TOKENS, maxTokens);
}

/** Tokens by which this request fills the worker's cache while it runs. */
export function kvTokens(booking: Booking): number {
  return uncachedTokens(booking) + booking.outputTokens;
}
