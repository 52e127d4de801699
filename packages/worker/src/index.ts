export { type WorkerConfig, workerFields } from './config.ts';
export { createWorkerMetrics } from './metrics.ts';
export { createWorkerService } from './worker-service.ts';
