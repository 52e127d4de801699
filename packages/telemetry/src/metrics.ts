import { collectDefaultMetrics, Registry } from 'prom-client';
import { NO_SAMPLES_MS, observeLoopLag } from './loop-lag.ts';

/**
 * A registry of one process: every metric carries `role` and `id`, and the process's own figures are in it (CPU, resident
 * memory, event loop lag as `nodejs_eventloop_lag_*`, garbage collection).
 */
export function createRegistry(labels: { role: string; id: string }): Registry {
  const registry = new Registry();
  registry.setDefaultLabels(labels);
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NO_SAMPLES_MS });
  observeLoopLag(registry);
  return registry;
}
