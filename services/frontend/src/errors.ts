import { AppError } from '@busbar/base';

/** What ends a request inside the frontend. `error-response.ts` says how each is told to the client. */
export type FrontendErrorCode =
  /** This frontend is stopping and takes no new request. */
  | 'FRONTEND_DRAINING'
  /** As many requests are in flight here as one frontend carries. */
  | 'FRONTEND_FULL'
  /** The connection to the bus broke while the request needed it. */
  | 'FRONTEND_BUS_DOWN'
  /** No router listens. */
  | 'FRONTEND_NO_ROUTER'
  /** A router took the question and did not answer in time. */
  | 'FRONTEND_ROUTER_SILENT'
  /** The worker of a started request is gone. */
  | 'FRONTEND_WORKER_LOST'
  /** A message with tokens of this request did not arrive. */
  | 'FRONTEND_TOKENS_LOST'
  /** Every worker that a router named refused the request. */
  | 'FRONTEND_NO_PLACEMENT'
  /** The model is known, and nobody can serve it now. */
  | 'FRONTEND_MODEL_UNAVAILABLE'
  /** A fault that nobody expected. */
  | 'FRONTEND_INTERNAL';

export class FrontendError extends AppError<FrontendErrorCode> {}
