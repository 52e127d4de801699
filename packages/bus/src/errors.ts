import { AppError } from '@busbar/base';

export type BusErrorCode =
  | 'BUS_NO_RESPONDERS'
  | 'BUS_TIMEOUT'
  | 'BUS_ABORTED'
  | 'BUS_TOO_LARGE'
  | 'BUS_DISCONNECTED'
  | 'BUS_CLOSED'
  | 'BUS_UNREACHABLE'
  | 'BUS_UNAUTHORIZED'
  | 'BUS_SERVER_TOO_OLD'
  | 'BUS_NO_JETSTREAM';

/** Codes after which the same call may work a moment later. */
const RETRYABLE: ReadonlySet<BusErrorCode> = new Set([
  'BUS_NO_RESPONDERS',
  'BUS_TIMEOUT',
  'BUS_DISCONNECTED',
  'BUS_UNREACHABLE',
]);

export class BusError extends AppError<BusErrorCode> {
  constructor(code: BusErrorCode, message: string, cause?: unknown) {
    super(code, message, { cause, retryable: RETRYABLE.has(code) });
    this.name = 'BusError';
  }
}

export function tooLarge(subject: string, bytes: number, limit: number): BusError {
  return new BusError('BUS_TOO_LARGE', `${bytes} bytes for ${subject}; the bus takes ${limit}`);
}

export function disconnected(what: string, cause?: unknown): BusError {
  return new BusError('BUS_DISCONNECTED', `${what}: the connection to the bus is down`, cause);
}

export function closed(what: string): BusError {
  return new BusError('BUS_CLOSED', `${what}: the bus is closed`);
}
