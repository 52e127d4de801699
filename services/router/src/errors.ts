import { AppError } from '@busbar/base';

/** What goes wrong inside a router and reaches no client; refusals of requests are codes of `RouteReply`. */
export type RouterErrorCode =
  /** The snapshot of a worker changed or went away while it was read. */
  'ROUTER_SNAPSHOT_LOST';

export class RouterError extends AppError<RouterErrorCode> {}
