import { AppError, type ErrorKind } from '@busbar/base';

export type TokenizerErrorCode =
  | 'TOKENIZER_NOT_FOUND'
  | 'TOKENIZER_INVALID'
  | 'TOKENIZER_TEMPLATE'
  | 'TOKENIZER_BUSY'
  | 'TOKENIZER_ABORTED'
  | 'TOKENIZER_CLOSED'
  | 'TOKENIZER_FAILED';

/** What each code means and whether the same call may work later. */
export const TOKENIZER_ERRORS: Record<TokenizerErrorCode, ErrorKind> = {
  TOKENIZER_NOT_FOUND: { message: 'the folder has no tokenizer.json', retryable: false },
  TOKENIZER_INVALID: { message: 'the tokenizer files cannot be used', retryable: false },
  TOKENIZER_TEMPLATE: { message: 'the chat template refused the messages', retryable: false },
  TOKENIZER_BUSY: { message: 'too many long texts wait for a tokenizer thread', retryable: true },
  TOKENIZER_ABORTED: {
    message: 'the caller gave up before the text was encoded',
    retryable: false,
  },
  TOKENIZER_CLOSED: { message: 'the tokenizer is closed', retryable: false },
  TOKENIZER_FAILED: { message: 'a tokenizer thread failed', retryable: true },
};

/** An expected failure of this package. `message` is the detail if there is one, else the text of the table. */
export class TokenizerError extends AppError<TokenizerErrorCode> {
  constructor(code: TokenizerErrorCode, detail?: string, cause?: unknown) {
    const kind = TOKENIZER_ERRORS[code];
    super(code, detail ?? kind.message, { cause, retryable: kind.retryable });
    this.name = 'TokenizerError';
  }
}
