import { AppError, type ErrorKind } from '@busbar/base';

/** Why KV did not come over, or a probe found nothing. The message of a TransferError says it in a sentence. */
export const TRANSFER_ERRORS = {
  TRANSFER_REFUSED: { message: 'the other side has nothing to send', retryable: true },
  /** Nothing is wrong with the link: others are served first, for too long. */
  TRANSFER_BUSY: { message: 'the other side has no room now', retryable: true },
  TRANSFER_UNREACHABLE: { message: 'the other side cannot be reached', retryable: true },
  TRANSFER_BROKEN: { message: 'the connection broke', retryable: true },
  TRANSFER_TIMEOUT: { message: 'the transfer took too long', retryable: true },
  TRANSFER_CORRUPT: { message: 'what arrived is not what was asked for', retryable: true },
  TRANSFER_CANCELLED: { message: 'the transfer was given up', retryable: false },
} as const satisfies Record<string, ErrorKind>;
export type TransferErrorCode = keyof typeof TRANSFER_ERRORS;

export class TransferError extends AppError<TransferErrorCode> {
  constructor(code: TransferErrorCode, message: string, cause?: unknown) {
    super(code, message, { cause, retryable: TRANSFER_ERRORS[code].retryable });
    this.name = 'TransferError';
  }
}
