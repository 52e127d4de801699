import type { PairView, RouterEffect, SplitRecord } from '@busbar/routing';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export type TransferredEffect = Extract<RouterEffect, { kind: 'transferred' }>;

export interface SplitMetrics {
  onRecord(record: SplitRecord): void;
  onTransferred(effect: TransferredEffect): void;
}

const TRANSFER_BUCKETS = [1e-3, 5e-3, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120];

/** Registers what `busbar_router_*` says of split requests and their transfers. */
export function createSplitMetrics(registry: Registry): SplitMetrics {
  const registers = [registry];
  const splits = new Counter({
    name: 'busbar_router_splits_total',
    help: 'Placements for which a prefill worker was in question, by kind (split or whole) and cause',
    labelNames: ['kind', 'cause'],
    registers,
  });
  const transfer = (name: string, help: string): Histogram =>
    new Histogram({
      name: `busbar_router_transfer_${name}_seconds`,
      help,
      buckets: TRANSFER_BUCKETS,
      registers,
    });
  const predicted = transfer('predicted', 'Predicted time from end of prefill to first token');
  const observed = transfer(
    'observed',
    'Time from end of prefill to first token, of the same requests as the predicted one',
  );
  const bytes = new Counter({
    name: 'busbar_router_transfer_bytes_total',
    help: 'KV of split requests that arrived',
    registers,
  });
  return {
    onRecord: ({ isSplit, cause }) => splits.labels(isSplit ? 'split' : 'whole', cause).inc(),
    onTransferred: (effect) => {
      predicted.observe(effect.predictedMs / 1000);
      observed.observe(effect.observedMs / 1000);
      bytes.inc(effect.bytes);
    },
  };
}

type LinkRow = readonly [name: string, help: string, read: (pair: PairView) => number];

const OF_LINK: readonly LinkRow[] = [
  [
    'bytes_per_second',
    'Rate that is predicted for the link',
    (pair) => Math.round(pair.bytesPerMs * 1_000),
  ],
  [
    'booked_bytes',
    'KV of placed requests that is not known to be there',
    (pair) => pair.bookedBytes,
  ],
  [
    'suspect',
    '1 while requests are not split over the link because transfers failed',
    (pair) => Number(pair.suspectForMs !== undefined),
  ],
];

/** Registers the gauges of pairs and links: read at each scrape, so that workers that left leave no series. */
export function createPairMetrics(registry: Registry, pairs: () => readonly PairView[]): void {
  const registers = [registry];
  const count = (name: string, help: string, isCounted: (pair: PairView) => boolean): Gauge =>
    new Gauge({
      name: `busbar_router_${name}`,
      help,
      registers,
      collect() {
        this.set(pairs().filter(isCounted).length);
      },
    });
  count('pairs', 'Pairs of workers that can exchange KV', ({ refusal }) => refusal === undefined);
  count(
    'pairs_refused',
    'Pairs of workers of one model that can never exchange KV',
    ({ refusal }) => refusal !== undefined,
  );
  for (const [name, help, read] of OF_LINK) {
    const gauge = new Gauge({
      name: `busbar_router_link_${name}`,
      help,
      labelNames: ['prefill', 'decode'],
      registers: [],
      collect() {
        this.reset();
        for (const pair of pairs()) {
          if (pair.refusal !== undefined) continue;
          this.set({ prefill: pair.prefillWorkerId, decode: pair.decodeWorkerId }, read(pair));
        }
      },
    });
    registry.registerMetric(gauge);
  }
}
