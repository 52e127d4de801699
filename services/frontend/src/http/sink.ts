import type { ApiFinishReason, Problem, UsageTokens } from '@busbar/openai';

/** Where the text of one answer goes: a stream of events or one JSON body. Calls after the end do nothing. */
export interface AnswerSink {
  /** `usage`: tokens of this choice so far, for clients that want them all the time. */
  text(index: number, text: string, usage?: UsageTokens): void;
  finish(index: number, reason: ApiFinishReason, usage?: UsageTokens): void;
  /** All candidates are finished. */
  complete(usage: UsageTokens): void;
  /** The answer cannot go on: a status while none was sent, else one error event and the end. */
  fail(problem: Problem): void;
}
