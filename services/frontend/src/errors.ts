import { AppError, messageOf } from '@busbar/base';

/** What ends a request inside the frontend. `error-response.ts` says how each is told to the client. */
export type FrontendErrorCode =
  /** This process is stopping and takes no new requests. */
  | 'FRONTEND_DRAINING'
  /** As many requests run here as the limit allows. */
  | 'FRONTEND_FULL'
  /** The connection to NATS is down. */
  | 'FRONTEND_BUS_DOWN'
  /** No router listens for the model. */
  | 'FRONTEND_NO_ROUTER'
  /** A router took the question and did not answer, twice. */
  | 'FRONTEND_ROUTER_SILENT'
  /** The worker of a stream is gone, hangs, or stopped the stream. */
  | 'FRONTEND_WORKER_LOST'
  /** Messages with tokens of a stream did not arrive. */
  | 'FRONTEND_TOKENS_LOST'
  /** A prefill worker ended its leg without word of how to fetch the KV: it cannot stage any. */
  | 'FRONTEND_NOT_STAGED'
  /** The KV of a prefill waited for so long that it may be gone. */
  | 'FRONTEND_KV_EXPIRED'
  /** The prefill of a split request failed, or the way of its KV, and the mode lets nobody else compute it. */
  | 'FRONTEND_PREFILL_FAILED'
  /** The model's card, a worker or a router is missing, or the stack has no model yet. */
  | 'FRONTEND_MODEL_UNAVAILABLE'
  /** A fault that nobody foresaw. */
  | 'FRONTEND_INTERNAL';

export class FrontendError extends AppError<FrontendErrorCode> {}

/** Any thrown value as an error with a code. */
export function toAppError(error: unknown): AppError {
  return error instanceof AppError
    ? error
    : new FrontendError('FRONTEND_INTERNAL', messageOf(error), { cause: error });
}
