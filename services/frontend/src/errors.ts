import { AppError } from '@busbar/base';

/** What ends a request inside the frontend. `error-response.ts` says how each is told to the client. */
export type FrontendErrorCode =
  | 'FRONTEND_DRAINING'
  | 'FRONTEND_FULL'
  | 'FRONTEND_BUS_DOWN'
  | 'FRONTEND_NO_ROUTER'
  | 'FRONTEND_ROUTER_SILENT'
  | 'FRONTEND_WORKER_LOST'
  | 'FRONTEND_TOKENS_LOST'
  | 'FRONTEND_NO_PLACEMENT'
  | 'FRONTEND_MODEL_UNAVAILABLE';

export class FrontendError extends AppError<FrontendErrorCode> {}
