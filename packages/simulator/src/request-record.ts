import type { Outcome } from '@busbar/protocol';
import type { SimRequest } from './workload.ts';

/** What became of one request. Times are virtual milliseconds. */
export interface RequestRecord {
  promptTokens: number;
  isRepeat: boolean;
  arrivedMs: number;
  /** What the router of the last placement said of the time from its reply to the first token; undefined when its policy predicts none. */
  predictedTtftMs: number | undefined;
  firstTokenMs: number | undefined;
  endedMs: number | undefined;
  outcome: Outcome | undefined;
  /** Prompt tokens that whoever computed the prompt had in its cache. */
  cachedTokens: number;
  expectedCachedTokens: number;
  outputTokens: number;
  workerId: string | undefined;
  placements: number;
  /** Placements that a prefill worker had a part in. */
  splits: number;
  /** Its first token rests on KV that was fetched. */
  isFetched: boolean;
  /** A split of it failed, and the decision allowed no other way. */
  isGivenUp: boolean;
  /** Ends that were seen; anything but one is a fault. */
  ends: number;
}

export function newRecord(request: SimRequest, arrivedMs: number): RequestRecord {
  return {
    promptTokens: request.tokens.length,
    isRepeat: request.isRepeat,
    arrivedMs,
    predictedTtftMs: undefined,
    firstTokenMs: undefined,
    endedMs: undefined,
    outcome: undefined,
    cachedTokens: 0,
    expectedCachedTokens: 0,
    outputTokens: 0,
    workerId: undefined,
    placements: 0,
    splits: 0,
    isFetched: false,
    isGivenUp: false,
    ends: 0,
  };
}
