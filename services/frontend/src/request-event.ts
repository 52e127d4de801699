import { limit, type Outcome } from '@busbar/protocol';
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

/** A request that no router was asked for. */
export interface RefusedRequest {
  /** The model that it is for, as far as the body was read; what the client wrote when nobody serves it. */
  model: string | undefined;
  lora: string | undefined;
  receivedAtMs: number;
}

/** The data of `request.completed` where the request ended before it was placed: nothing was computed for it. */
export function refusedEventData(
  { model, lora, receivedAtMs }: RefusedRequest,
  outcome: Outcome,
  errorCode: string | null,
  nowMs: number,
): Record<string, unknown> {
  return {
    ...(model === undefined ? {} : { model: model.slice(0, limit('modelNameChars')) }),
    ...(lora === undefined ? {} : { lora }),
    outcome,
    ...(errorCode === null ? {} : { errorCode }),
    candidates: 0,
    promptTokens: 0,
    cachedTokens: 0,
    outputTokens: 0,
    durationMs: Math.round(nowMs - receivedAtMs),
  };
}
