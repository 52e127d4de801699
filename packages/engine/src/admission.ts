import type { EngineRequest, SubmitResult } from './port.ts';

export type Refusal = Extract<SubmitResult, { kind: 'refused' }>;

/** Why no engine with such a context takes this request; undefined when nothing speaks against it. */
export function refuseShape(request: EngineRequest, contextTokens: number): Refusal | undefined {
  const { tokens, maxTokens, kvSource, stageKv } = request;
  if (tokens.length === 0) return refuse('WORKER_BAD_REQUEST', 'the prompt is empty');
  if (maxTokens < 1) return refuse('WORKER_BAD_REQUEST', 'maxTokens is below 1');
  if (tokens.length >= contextTokens) {
    const text = `${tokens.length} prompt tokens leave no room in a context of ${contextTokens}`;
    return refuse('WORKER_TOO_LONG', text);
  }
  return stageKv !== undefined && kvSource !== undefined
    ? refuse('WORKER_BAD_REQUEST', 'a request stages KV or fetches it, not both')
    : undefined;
}

/** A refusal; a fault of the engine, and KV that cannot be had, may go better elsewhere. */
export function refuse(code: Refusal['code'], message: string): Refusal {
  const retryable = code === 'WORKER_FAULT' || code === 'WORKER_KV_LOST';
  return { kind: 'refused', code, message, retryable };
}
