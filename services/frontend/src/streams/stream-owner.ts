import type { AppError } from '@busbar/base';
import type { StreamDelta } from '@busbar/protocol';

/** Whose tokens a stream carries: a candidate of an answer, or the prefill leg of one. */
export interface StreamOwner {
  /** Where the stream runs; what comes from another worker is not of this stream. */
  readonly workerId: string | undefined;
  /** The stream there; undefined or 0 while there is none. */
  readonly streamId: number | undefined;
  /** Tokens of the prompt, which the worker computes before the first of the stream. */
  readonly promptTokens: number;
  /** Tokens that came; what the next delta must begin at. */
  readonly position: number;
  /** When the last delta came; 0 before the first. */
  readonly lastDeltaMs: number;
  /** Set when tokens of this stream may have been lost; cleared by its next delta. */
  suspectSinceMs: number;
  /** True while the worker may be busy fetching KV for this stream, of which nothing is heard. */
  readonly isFetching: boolean;
  /** Takes a delta whose worker and position have been checked. */
  accept(delta: StreamDelta, nowMs: number): void;
  /** The worker is gone, or some of the tokens are. */
  lose(error: AppError): void;
  /** The whole answer cannot go on. */
  fail(error: AppError): void;
}
