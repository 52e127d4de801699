import { AppError } from '@busbar/base';

export type BusErrorCode =
  | 'BUS_NO_RESPONDERS'
  | 'BUS_TIMEOUT'
  | 'BUS_ABORTED'
  | 'BUS_TOO_LARGE'
  | 'BUS_DISCONNECTED'
  | 'BUS_CLOSED'
  | 'BUS_UNREACHABLE'
  | 'BUS_SERVER_TOO_OLD'
  | 'BUS_NO_JETSTREAM';

export class BusError extends AppError<BusErrorCode> {}
