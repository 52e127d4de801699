import { AppError } from '@busbar/base';

export type BusErrorCode =
  /** Nobody listens on the subject of a request. Known at once. */
  | 'BUS_NO_RESPONDERS'
  /** A request was not answered in its time. */
  | 'BUS_TIMEOUT'
  /** The caller gave a request up. */
  | 'BUS_ABORTED'
  /** The payload is larger than the server takes. Nothing was sent. */
  | 'BUS_TOO_LARGE'
  /** The connection is down, and the buffer for that time is full or is not for this call. */
  | 'BUS_DISCONNECTED'
  /** This process has closed its connection. */
  | 'BUS_CLOSED'
  /** No server answers at the URL. */
  | 'BUS_UNREACHABLE'
  /** The server refuses the credentials. */
  | 'BUS_UNAUTHORIZED'
  /** The server is older than 2.11, which leases need. */
  | 'BUS_SERVER_TOO_OLD'
  /** The server runs without JetStream. */
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
