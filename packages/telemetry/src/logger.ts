import { pino } from 'pino';
import type { Logger } from './port.ts';
import { formatPretty } from './pretty.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export const LOG_FORMATS = ['json', 'pretty'] as const;

export interface LoggerOptions {
  level: (typeof LOG_LEVELS)[number];
  /** `json`: one object a line, for machines. `pretty`: one line for a person. */
  format: (typeof LOG_FORMATS)[number];
  /** Fields of every line. */
  base: Record<string, string | number>;
  /** Receives each finished line with its newline; the default is standard output. */
  write?: (line: string) => void;
}

/**
 * A logger whose lines are written before the call returns, so that the last line of a dying process is not lost.
 * Errors belong in the field `err`; their stack is kept.
 */
export function createLogger(options: LoggerOptions): Logger {
  const settings = {
    level: options.level,
    base: options.base,
    messageKey: 'message',
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const { write } = options;
  if (options.format === 'json') {
    return wrap(pino(settings, write ? { write } : pino.destination({ fd: 1, sync: true })));
  }
  const print = write ?? ((line: string) => void process.stdout.write(line));
  return wrap(pino(settings, { write: (line: string) => print(formatPretty(line)) }));
}

function wrap(inner: pino.Logger): Logger {
  return {
    debug: (fields, message) => inner.debug(fields, message),
    info: (fields, message) => inner.info(fields, message),
    warn: (fields, message) => inner.warn(fields, message),
    error: (fields, message) => inner.error(fields, message),
    child: (fields) => wrap(inner.child({ ...fields })),
  };
}
