import { createBusMetrics } from '@busbar/service';
import { createRegistry } from '@busbar/telemetry';
import { createLinkMetrics, createWorkerMetrics } from '@busbar/worker';
import { Registry } from 'prom-client';
import { createFrontendMetrics } from '../../services/frontend/src/metrics.ts';
import { createRouterMetrics } from '../../services/router/src/metrics.ts';
import { createPairMetrics } from '../../services/router/src/split-metrics.ts';
import { createStateMetrics } from '../../services/router/src/state-metrics.ts';
import { code, markdownTable, type Page, page } from './page.ts';

/** Registers what one role measures, with sources that say nothing. */
type Register = (registry: Registry) => void;

const idle = {
  running: 0,
  waiting: 0,
  waitingPrefillTokens: 0,
  freeBlocks: 0,
  activeBlocks: 0,
  decodeStepMs: 0,
  prefillTokensPerMs: 0,
  storedBlocksTotal: 0,
  stagedBlocks: 0,
};

const NO_COUNTS = {
  handlerErrors: 0,
  reconnects: 0,
  refusedPublishes: 0,
  watchReopens: 0,
  forgottenRequests: 0,
};

const ROLES: Readonly<Record<string, Register>> = {
  frontend: (registry) => {
    createFrontendMetrics(
      registry,
      () => 0,
      () => 0,
    );
  },
  router: (registry) => {
    createRouterMetrics(registry, 'predictive');
    createPairMetrics(registry, () => []);
    createStateMetrics(registry, {
      workers: () => [],
      stats: () => new Map(),
      queued: () => 0,
      nowMs: () => 0,
    });
  },
  decode: (registry) => {
    createWorkerMetrics(registry, 'decode', () => idle);
    createLinkMetrics(registry, () => []);
  },
  prefill: (registry) => {
    createWorkerMetrics(registry, 'prefill', () => idle);
  },
  bus: (registry) => {
    createBusMetrics(registry, () => NO_COUNTS);
  },
};

/** One metric as the page tells it. */
export interface MetricEntry {
  role: string;
  name: string;
  type: string;
  labels: string[];
  help: string;
}

/** The catalogue, read from registries that the services' own code has filled. */
export function metricCatalogue(): MetricEntry[] {
  const entries: MetricEntry[] = [];
  for (const [role, register] of Object.entries(ROLES)) {
    const registry = new Registry();
    register(registry);
    for (const metric of registry.getMetricsAsArray()) {
      const labels: unknown = Reflect.get(metric, 'labelNames');
      const { name, help, type } = metric;
      entries.push({
        role,
        name,
        type: String(type),
        labels: Array.isArray(labels) ? labels.map(String) : [],
        help,
      });
    }
  }
  return entries;
}

/** Every metric of every service. */
export function metricsPage(): Page {
  const entries = metricCatalogue();
  const parts = Object.keys(ROLES).flatMap((role) => [
    `## ${role}`,
    markdownTable(
      ['metric', 'type', 'labels', 'what it counts'],
      entries
        .filter((entry) => entry.role === role)
        .toSorted((a, b) => a.name.localeCompare(b.name))
        .map((entry) => [
          code(entry.name),
          entry.type,
          entry.labels.map(code).join(', '),
          entry.help,
        ]),
    ),
  ]);
  const common = createRegistry({ role: 'r', id: 'i' })
    .getMetricsAsArray()
    .map((metric) => metric.name)
    .toSorted();
  return page(
    'metrics.md',
    'Metrics',
    'Prometheus text on `/metrics` of each admin port, and of the API port of a frontend. Every metric carries the labels `role` and `id`.',
    [
      ...parts,
      '## Every process',
      'Besides those of `bus`, figures of the process and its runtime, from prom-client:',
      common.map((name) => `- ${code(name)}`).join('\n'),
    ],
  );
}
