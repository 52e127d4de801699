import { AppError } from '@busbar/base';

export type ServiceErrorCode =
  /** The configuration is wrong; every problem is one sentence of the message. Exit code 2. */
  | 'SERVICE_CONFIG'
  /** The admin port cannot be opened. */
  | 'SERVICE_ADMIN_PORT'
  /** The port that the service itself listens on cannot be opened. */
  | 'SERVICE_PORT'
  /** Another living process has the same role and id. */
  | 'SERVICE_ID_TAKEN'
  /** What this process would serve contradicts what living ones serve. */
  | 'SERVICE_CONFLICT'
  /** NATS cannot be used. */
  | 'SERVICE_BUS';

/** A reason why a process cannot start, as a sentence for the person who started it. */
export class ServiceError extends AppError<ServiceErrorCode> {}
