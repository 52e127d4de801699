import type { Flight } from '../split/link.ts';
import type { WorkerRow } from '../workers/worker-row.ts';

/** One placed request, from the decision until it ended or was forgotten. */
export interface Booking {
  readonly decisionId: string;
  readonly routerId: string;
  readonly frontendId: string;
  /** Which of the frontend's asks was answered by it; undefined when it does not say. */
  readonly ask: number | undefined;
  readonly row: WorkerRow;
  /** Two words a block; kept by reference until the request ends. */
  readonly hashes: Uint32Array;
  readonly promptTokens: number;
  /** Prompt tokens that the worker is not expected to compute. */
  cachedTokens: number;
  /** Those of them that lie in its cache anyway; the others are fetched and take up room like computed ones. */
  readonly residentTokens: number;
  /** Prompt tokens that were really there at the decision, not only predicted. */
  readonly seenTokens: number;
  /** Output tokens expected of it. */
  readonly outputTokens: number;
  /** Blocks from here on are held as predicted until the prefill has ended and the worker has told of them. */
  readonly predictedFrom: number;
  readonly bookedMs: number;
  /** The decode leg of a split request: its worker fetches the prompt's KV and computes nothing of it. */
  isFetched: boolean;
  /** The transfer that it waits for, when this router knows of it. */
  flight: Flight | undefined;
  /** No first token yet. */
  isPrefilling: boolean;
  /** Its blocks still count as predicted. */
  isPredicted: boolean;
  /** List of all bookings in order of time. */
  older: Booking | undefined;
  newer: Booking | undefined;
  /** List of the worker's bookings without a first token: those that it computes, or those that it fetches. */
  olderInLine: Booking | undefined;
  newerInLine: Booking | undefined;
}

/** Prompt tokens that the worker must compute for this request. */
export function uncachedTokens(booking: Booking): number {
  return booking.isFetched ? 0 : booking.promptTokens - booking.cachedTokens;
}

/** Longest answer that is expected of anybody who did not ask for less. */
const USUAL_OUTPUT_TOKENS = 128;

export function expectedOutput(maxTokens: number): number {
  return Math.min(USUAL_OUTPUT_TOKENS, maxTokens);
}

/** Tokens by which this request fills the worker's cache while it runs. */
export function kvTokens(booking: Booking): number {
  return booking.promptTokens - booking.residentTokens + booking.outputTokens;
}
