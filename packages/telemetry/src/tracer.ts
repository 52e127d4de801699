import type { Span, Tracer } from './port.ts';

export interface TracerOptions {
  /** Base URL of an OTLP/HTTP receiver (`OTEL_EXPORTER_OTLP_ENDPOINT`); without it nothing is traced. */
  endpoint: string | undefined;
  serviceName: string;
  instanceId: string;
  /** How long finished spans are gathered before they are sent. */
  exportDelayMs?: number;
}

const NOOP_SPAN: Span = { traceparent: undefined, set: () => {}, end: () => {} };

/** Records nothing and allocates nothing. */
export const NOOP_TRACER: Tracer = {
  isEnabled: false,
  start: () => NOOP_SPAN,
  shutdown: () => Promise.resolve(),
};

/** A tracer that sends spans to `endpoint`, or the no-op one. The OpenTelemetry SDK is loaded only when it is needed. */
export async function createTracer(options: TracerOptions): Promise<Tracer> {
  if (options.endpoint === undefined || options.endpoint === '') return NOOP_TRACER;
  const { createOtlpTracer } = await import('./otlp-tracer.ts');
  return createOtlpTracer({ ...options, endpoint: options.endpoint });
}
