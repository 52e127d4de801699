import { AppError, type ErrorKind } from '@busbar/base';
import type { EngineDelta } from '../port.ts';
import type { AnswerError } from './serving/answer.ts';

/** Why a vLLM cannot be used, or not go on. The message of a VllmError says it in a sentence. */
export const VLLM_ERRORS = {
  /** Leftovers, a lock, a busy port, the driver. */
  VLLM_HOST: { message: 'something on this host stands in the way', retryable: false },
  VLLM_OPTIONS: { message: 'the options contradict each other or the engine', retryable: false },
  VLLM_START: { message: 'the engine did not get ready', retryable: false },
  VLLM_ANSWER: { message: 'the engine does not answer as a vLLM does', retryable: true },
  VLLM_GONE: { message: 'the engine ended, hangs, or came back as another', retryable: true },
  VLLM_COMMAND: { message: 'the engine refused a command', retryable: false },
} as const satisfies Record<string, ErrorKind>;
export type VllmErrorCode = keyof typeof VLLM_ERRORS;

export class VllmError extends AppError<VllmErrorCode> {
  constructor(code: VllmErrorCode, message: string, cause?: unknown) {
    super(code, message, { cause, retryable: VLLM_ERRORS[code].retryable });
    this.name = 'VllmError';
  }
}

/** Statuses with which an engine does not take a request at all: they say nothing of the way of its KV. */
const REFUSALS: ReadonlySet<number> = new Set([400, 404, 413, 422, 429, 503]);

export function isRefusal({ status }: AnswerError): boolean {
  return REFUSALS.has(status);
}

/** How far a request was when its error came. */
export interface RequestState {
  lora: string | undefined;
  isFetching: boolean;
  /** Tokens of the answer have come. */
  hasBegun: boolean;
}

/**
 * What an error of vLLM means for a request. Mistakes of the request are final; a failed fetch of KV comes as a plain 500; all else
 * may go better elsewhere. A 404 speaks of the adapter where it names it. Otherwise it is of a path or a base model that this engine
 * does not have, which no request chooses.
 */
export function requestError(
  { message, status }: AnswerError,
  { lora, isFetching, hasBegun }: RequestState,
): NonNullable<EngineDelta['error']> {
  if (status === 400 || status === 413 || status === 422) {
    return { code: 'WORKER_BAD_REQUEST', message, retryable: false };
  }
  if (status === 404) {
    const isOfAdapter = lora !== undefined && message.includes(lora);
    return { code: isOfAdapter ? 'WORKER_NO_MODEL' : 'WORKER_FAULT', message, retryable: true };
  }
  // An engine that had room for the first token is not full: it is stopping, or broken.
  if ((status === 429 || status === 503) && !hasBegun) {
    return { code: 'WORKER_FULL', message, retryable: true };
  }
  if (isFetching) {
    const text = `the KV of the prompt could not be fetched: ${message}`;
    return { code: 'WORKER_KV_LOST', message: text, retryable: true };
  }
  return { code: 'WORKER_FAULT', message, retryable: true };
}
