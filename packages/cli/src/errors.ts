import { AppError, type ErrorKind } from '@busbar/base';

/** What the command can fail with. `docs/reference/errors.md` is made from this. */
const CLI_ERRORS = {
  CLI_USAGE: { message: 'A flag or argument is not valid; nothing was done.', retryable: false },
  CLI_STACK_RUNNING: {
    message: 'A stack already runs with this namespace and state folder.',
    retryable: false,
  },
  CLI_PORT_IN_USE: { message: 'Another process listens on the port.', retryable: false },
  CLI_NO_NATS: { message: 'No nats-server was found, or it did not start.', retryable: false },
  CLI_START_FAILED: {
    message: 'A process of the stack ended or was not ready in time.',
    retryable: true,
  },
  CLI_NO_STACK: { message: 'No stack runs that the command could talk to.', retryable: true },
  CLI_HTTP: { message: 'The HTTP API refused the request or broke off.', retryable: true },
  CLI_CONTEXT: {
    message: 'The prompt and its answer do not fit into the context of the model.',
    retryable: false,
  },
  CLI_STATE: { message: 'The state of a stack cannot be read or written.', retryable: false },
} as const satisfies Record<string, ErrorKind>;

export type CliErrorCode = keyof typeof CLI_ERRORS;

/** An error whose message is meant for the person at the terminal: a whole sentence that says what to do. */
export class CliError extends AppError<CliErrorCode> {
  constructor(code: CliErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(code, message, { ...options, retryable: CLI_ERRORS[code].retryable });
    this.name = 'CliError';
  }

  /** 2 for a usage error, 1 for everything that went wrong on the way. */
  get exitCode(): 1 | 2 {
    return this.code === 'CLI_USAGE' ? 2 : 1;
  }
}
