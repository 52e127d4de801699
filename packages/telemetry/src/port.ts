/** Structured log: fields first, then a sentence. Values of unbounded user input are cut before they come here. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
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
