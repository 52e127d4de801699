import { limit, type Outcome } from '@busbar/protocol';
import type { Generation } from './generation.ts';

/** The data of `request.completed`: workers, sizes and times of a request that has ended, never its texts. */
export function requestEventData(
  generation: Generation,
  outcome: Outcome,
  nowMs: number,
): Record<string, unknown> {
  const { firstTokenAtMs, receivedAtMs } = generation;
  const { promptTokens, completionTokens, cachedTokens } = generation.usage();
  const workerIds = new Set<string>();
  for (const { lastWorkerId } of generation.candidates) {
    if (lastWorkerId !== undefined) workerIds.add(lastWorkerId);
  }
  return {
    ...endOf(generation, outcome, generation.errorCode, nowMs),
    candidates: generation.candidates.length,
    workerIds: [...workerIds],
    promptTokens,
    cachedTokens,
    outputTokens: completionTokens,
    ...(firstTokenAtMs === undefined ? {} : { ttftMs: Math.round(firstTokenAtMs - receivedAtMs) }),
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
  request: RefusedRequest,
  outcome: Outcome,
  errorCode: string | null,
  nowMs: number,
): Record<string, unknown> {
  return {
    ...endOf(request, outcome, errorCode ?? undefined, nowMs),
    candidates: 0,
    workerIds: [],
    promptTokens: 0,
    cachedTokens: 0,
    outputTokens: 0,
  };
}

/** What is told of any request. Names that a client wrote are cut to what a model's may have. */
function endOf(
  { model, lora, receivedAtMs }: RefusedRequest,
  outcome: Outcome,
  errorCode: string | undefined,
  nowMs: number,
): Record<string, unknown> {
  return {
    ...(model === undefined ? {} : { model: model.slice(0, limit('modelNameChars')) }),
    ...(lora === undefined ? {} : { lora }),
    outcome,
    ...(errorCode === undefined ? {} : { errorCode }),
    durationMs: Math.round(nowMs - receivedAtMs),
  };
}
