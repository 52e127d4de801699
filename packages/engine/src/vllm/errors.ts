import { AppError, type ErrorKind } from '@busbar/base';

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
