/** Fields of one line. Those that every line has cannot be given: JSON would have them twice, and readers take the last. */
export interface LogFields {
  readonly [field: string]: unknown;
  readonly role?: never;
  readonly id?: never;
  readonly level?: never;
  readonly time?: never;
  readonly message?: never;
}

/** Structured log: fields first, then a sentence. Values of unbounded user input are cut before they come here. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  child(fields: LogFields): Logger;
}

/** One finished stage of a request, recorded only when an OTLP endpoint is configured. */
export interface Span {
  /** W3C traceparent to hand to the next process; undefined when nothing is traced. */
  readonly traceparent: string | undefined;
  set(attributes: Record<string, string | number | boolean>): void;
  end(error?: unknown): void;
}

export interface Tracer {
  readonly isEnabled: boolean;
  /** `parent` is the traceparent of the stage before; a malformed one is ignored. */
  start(
    name: string,
    parent?: string,
    attributes?: Record<string, string | number | boolean>,
  ): Span;
  shutdown(): Promise<void>;
}
