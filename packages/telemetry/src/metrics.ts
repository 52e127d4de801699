import { collectDefaultMetrics, Registry } from 'prom-client';

/** Coarse on purpose: each sample wakes an idle process. */
const LOOP_SAMPLE_MS = 500;

/**
 * A registry of one process: every metric carries `role` and `id`, and the process's own figures are in it (CPU, resident
 * memory, event loop lag as `nodejs_eventloop_lag_*`, garbage collection).
 */
export function createRegistry(labels: { role: string; id: string }): Registry {
  const registry = new Registry();
  registry.setDefaultLabels(labels);
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  return registry;
}
