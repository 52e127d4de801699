/** What every code of an error table carries: the public text and whether the same call may work later. */
export interface ErrorKind {
  readonly message: string;
  readonly retryable: boolean;
}

/** An operating error: expected in production, has a stable code. Programmer errors use `assert` instead. */
export class AppError<Code extends string = string> extends Error {
  readonly code: Code;
  readonly retryable: boolean;

  constructor(code: Code, message: string, options: { cause?: unknown; retryable?: boolean } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'AppError';
    this.code = code;
    this.retryable = options.retryable ?? false;
  }
}

/** Ends the process when an invariant is broken; stays on in production. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${message}`);
}

/** The `message` of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
