import { ServiceError, type ServiceErrorCode } from './errors.ts';

/** A port that could not be opened. */
export interface PortFault {
  /** What the port is, at the beginning of a sentence: `Admin port`. */
  what: string;
  host: string;
  port: number;
  /** The variables that choose another port and another address. */
  variable: string;
  hostVariable: string;
  code: Extract<ServiceErrorCode, 'SERVICE_ADMIN_PORT' | 'SERVICE_PORT'>;
}

/** One sentence for the operator, whichever server could not listen. */
export function portError(cause: NodeJS.ErrnoException, fault: PortFault): ServiceError {
  if (cause.code === 'EADDRNOTAVAIL' || cause.code === 'ENOTFOUND') {
    const sentence = `${fault.what}: ${fault.host} is no address of this machine; choose another with ${fault.hostVariable} (0.0.0.0 takes all).`;
    return new ServiceError(fault.code, sentence, { cause });
  }
  const reason =
    cause.code === 'EADDRINUSE'
      ? 'is in use by another process'
      : `cannot be opened: ${cause.message}`;
  const sentence = `${fault.what} ${fault.port} on ${fault.host} ${reason}; choose another with ${fault.variable} (0 takes a free one).`;
  return new ServiceError(fault.code, sentence, { cause });
}
