import type { Outcome } from '@busbar/protocol';
import type { Generation } from './generation.ts';

/** The data of `request.completed`: sizes and times of a request that has ended, never its texts. */
export function requestEventData(
  generation: Generation,
  outcome: Outcome,
  nowMs: number,
): Record<string, unknown> {
  const { model, lora, errorCode, receivedAtMs, firstTokenAtMs } = generation;
  const { promptTokens, completionTokens, cachedTokens } = generation.usage();
  return {
    model,
    ...(lora === undefined ? {} : { lora }),
    outcome,
    ...(errorCode === undefined ? {} : { errorCode }),
    candidates: generation.candidates.length,
    promptTokens,
    cachedTokens,
    outputTokens: completionTokens,
    ...(firstTokenAtMs === undefined ? {} : { ttftMs: Math.round(firstTokenAtMs - receivedAtMs) }),
    durationMs: Math.round(nowMs - receivedAtMs),
  };
}
