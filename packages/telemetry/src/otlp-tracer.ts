import { messageOf } from '@busbar/base';
import { ROOT_CONTEXT, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Span, Tracer } from './port.ts';
import { formatTraceparent, parseTraceparent } from './traceparent.ts';
import type { TracerOptions } from './tracer.ts';

const EXPORT_TIMEOUT_MS = 5_000;
const EXPORT_DELAY_MS = 1_000;

/** Spans by hand, one for each stage: no instrumentation of libraries and no ambient context. */
export function createOtlpTracer(options: TracerOptions & { endpoint: string }): Tracer {
  const exporter = new OTLPTraceExporter({
    url: `${options.endpoint.replace(/\/+$/, '')}/v1/traces`,
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': options.serviceName,
      'service.instance.id': options.instanceId,
    }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
        scheduledDelayMillis: options.exportDelayMs ?? EXPORT_DELAY_MS,
      }),
    ],
  });
  const inner = provider.getTracer('busbar');
  return {
    isEnabled: true,
    start: (name, parent, attributes = {}): Span => {
      const span = inner.startSpan(name, { attributes }, parentContext(parent));
      const { traceId, spanId, traceFlags } = span.spanContext();
      const isSampled = (traceFlags & TraceFlags.SAMPLED) !== 0;
      return {
        traceparent: formatTraceparent({ traceId, spanId, isSampled }),
        set: (more) => void span.setAttributes(more),
        end: (error) => {
          if (error !== undefined) {
            span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) });
          }
          span.end();
        },
      };
    },
    shutdown: () => provider.shutdown(),
  };
}

function parentContext(traceparent: string | undefined): typeof ROOT_CONTEXT {
  const parent = parseTraceparent(traceparent);
  if (parent === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId: parent.traceId,
    spanId: parent.spanId,
    traceFlags: parent.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    isRemote: true,
  });
}
