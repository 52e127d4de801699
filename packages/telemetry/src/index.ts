export { LateHistogram } from './late-histogram.ts';
export { createLogger, LOG_FORMATS, LOG_LEVELS, type LoggerOptions } from './logger.ts';
export { createRegistry } from './metrics.ts';
export type * from './port.ts';
export { formatPretty } from './pretty.ts';
export { formatTraceparent, parseTraceparent, type TraceContext } from './traceparent.ts';
export { createTracer, NOOP_TRACER, type TracerOptions } from './tracer.ts';
