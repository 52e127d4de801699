import type { WorkerView } from '@busbar/routing';
import { Counter, Gauge, type Registry } from 'prom-client';
import { TRUTH_RANK } from './truth-board.ts';
import type { WorkerStats } from './worker-stats.ts';

export interface RouterState {
  workers(nowMs: number): WorkerView[];
  stats(): ReadonlyMap<string, WorkerStats>;
  queued(): number;
  nowMs(): number;
}

type Row<T> = readonly [
  name: string,
  help: string,
  read: (from: T, nowMs: number) => number | undefined,
];

const OF_VIEW: readonly Row<WorkerView>[] = [
  ['worker_available', '1 when the worker can be chosen now', (view) => Number(view.isAvailable)],
  [
    'truth_state',
    'What is known of the cache: 2 events, 1 approximate, 0 load only',
    (view) => TRUTH_RANK[view.truth],
  ],
  ['index_blocks', 'Blocks that the index holds for the worker', (view) => view.indexedBlocks],
  ['booked_requests', 'Requests booked and not ended', (view) => view.bookedRequests],
  [
    'booked_prefill_tokens',
    'Prompt tokens booked, not prefilled',
    (view) => view.bookedPrefillTokens,
  ],
  [
    'expected_cached_tokens_total',
    'Cached tokens expected',
    (view) => view.expectedCachedTokensTotal,
  ],
  [
    'reported_cached_tokens_total',
    'Cached tokens that engines reported',
    (view) => view.reportedCachedTokensTotal,
  ],
];

const OF_STATS: readonly Row<WorkerStats>[] = [
  ['kv_batches_total', 'KV event batches that came', (stats) => stats.kvBatches],
  [
    'kv_event_age_seconds',
    'Time since the last KV event batch',
    (stats, nowMs) => age(stats.lastKvAtMs, nowMs),
  ],
  [
    'heartbeat_age_seconds',
    'Time since the last heartbeat',
    (stats, nowMs) => age(stats.lastLoadAtMs, nowMs),
  ],
  [
    'kv_gaps_total',
    'Times that KV event batches were lost',
    ({ syncs }) => syncs.gap + syncs.heartbeat,
  ],
  [
    'kv_syncs_total',
    'Times that a block set was asked for',
    ({ syncs }) => syncs.joined + syncs.gap + syncs.epoch + syncs.heartbeat,
  ],
  ['kv_failed_syncs_total', 'Block sets that could not be fetched', (stats) => stats.failedSyncs],
];

/** Both kinds are emptied and filled at each scrape. */
type Target = Gauge | Counter;

function age(sinceMs: number | undefined, nowMs: number): number | undefined {
  return sinceMs === undefined ? undefined : (nowMs - sinceMs) / 1000;
}

/** Registers the state metrics of `busbar_router_*`: read from the state at each scrape, so that workers that left leave no series. */
export function createStateMetrics(registry: Registry, state: RouterState): void {
  const gauge = (name: string, help: string, fill: (target: Target) => void): void => {
    const settings = { name: `busbar_router_${name}`, help, labelNames: ['worker'], registers: [] };
    const collect = function (this: Target): void {
      this.reset();
      fill(this);
    };
    registry.registerMetric(
      name.endsWith('_total')
        ? new Counter({ ...settings, collect })
        : new Gauge({ ...settings, collect }),
    );
  };
  const set = (target: Target, worker: string, value: number | undefined): void => {
    if (value !== undefined) target.inc({ worker }, value);
  };
  gauge('queued_requests', 'Requests that wait for a worker', (target) =>
    target.inc(state.queued()),
  );
  for (const [name, help, read] of OF_VIEW) {
    gauge(name, help, (target) => {
      const nowMs = state.nowMs();
      for (const view of state.workers(nowMs)) set(target, view.workerId, read(view, nowMs));
    });
  }
  for (const [name, help, read] of OF_STATS) {
    gauge(name, help, (target) => {
      for (const [worker, stats] of state.stats()) set(target, worker, read(stats, state.nowMs()));
    });
  }
}
