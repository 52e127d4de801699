export { type WorkerConfig, workerFields } from './config.ts';
export { createWorkerMetrics } from './metrics.ts';
export type { Env } from './setup/port.ts';
export { createWorkerService } from './worker-service.ts';
