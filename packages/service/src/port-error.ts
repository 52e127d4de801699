import { ServiceError, type ServiceErrorCode } from './errors.ts';

/** A port that could not be opened. */
export interface PortFault {
  /** What the port is, at the beginning of a sentence: `Admin port`. */
  what: string;
  host: string;
  port: number;
  /** The variable that chooses another. */
  variable: string;
  code: Extract<ServiceErrorCode, 'SERVICE_ADMIN_PORT' | 'SERVICE_PORT'>;
}

/** One sentence for the operator, whichever server could not listen. */
export function portError(cause: NodeJS.ErrnoException, fault: PortFault): ServiceError {
  const reason =
    cause.code === 'EADDRINUSE'
      ? 'is in use by another process'
      : `cannot be opened: ${cause.message}`;
  const sentence = `${fault.what} ${fault.port} on ${fault.host} ${reason}; choose another with ${fault.variable} (0 takes a free one).`;
  return new ServiceError(fault.code, sentence, { cause });
}
