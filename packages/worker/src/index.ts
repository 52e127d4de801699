export { type WorkerConfig, workerFields } from './config.ts';
export { createLinkMetrics } from './links/link-metrics.ts';
export { createWorkerMetrics } from './metrics.ts';
export type { Env } from './setup/port.ts';
export { createWorkerService } from './worker-service.ts';
