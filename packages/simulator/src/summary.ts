import type { PolicyName } from '@busbar/routing';
import { checkRun } from './check.ts';
import { percentile } from './percentile.ts';
import type { SimulationRun } from './simulation.ts';
import { combineSplits, type SplitSummary, summarizeSplits } from './split/split-summary.ts';

/** The figures of one run. */
export interface RunSummary {
  workload: string;
  policy: PolicyName;
  seed: number;
  workers: number;
  requests: number;
  completed: number;
  rejected: number;
  failed: number;
  /** Requests whose prompt had mostly been asked before, and those of them that found at least half of it cached. */
  repeats: number;
  hits: number;
  /** Cached tokens by all prompt tokens, as engines reported and as routers expected. */
  cachedRatio: number;
  expectedCachedRatio: number;
  ttftMs: { p50: number; p95: number; p99: number };
  /** Output tokens a second from the first arrival to the last end. */
  outputTokensPerSec: number;
  /** Longest queue that any worker had. */
  maxWaiting: number;
  /** Changes of what routers believe of a worker's cache. */
  truthChanges: readonly string[];
  violations: readonly string[];
  /** Of runs whose workers can exchange KV. */
  split?: SplitSummary;
}

/** The figures of a run, and what the checker found. */
export function summarize(
  run: SimulationRun,
  names: { workload: string; policy: PolicyName; seed: number },
): RunSummary {
  let promptTokens = 0;
  let cachedTokens = 0;
  let expectedCachedTokens = 0;
  let outputTokens = 0;
  let hits = 0;
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = 0;
  const ttftMs: number[] = [];
  for (const record of run.records) {
    promptTokens += record.promptTokens;
    cachedTokens += record.cachedTokens;
    expectedCachedTokens += record.expectedCachedTokens;
    outputTokens += record.outputTokens;
    if (record.isRepeat && record.cachedTokens * 2 >= record.promptTokens) hits++;
    firstMs = Math.min(firstMs, record.arrivedMs);
    lastMs = Math.max(lastMs, record.endedMs ?? 0);
    if (record.firstTokenMs !== undefined) ttftMs.push(record.firstTokenMs - record.arrivedMs);
  }
  ttftMs.sort((a, b) => a - b);
  const count = (outcome: string): number =>
    run.records.filter((record) => record.outcome === outcome).length;
  return {
    ...names,
    workers: run.workers.length,
    requests: run.records.length,
    completed: count('completed'),
    rejected: count('rejected'),
    failed: count('failed'),
    repeats: run.records.filter((record) => record.isRepeat).length,
    hits,
    cachedRatio: cachedTokens / Math.max(1, promptTokens),
    expectedCachedRatio: expectedCachedTokens / Math.max(1, promptTokens),
    ttftMs: {
      p50: percentile(ttftMs, 0.5),
      p95: percentile(ttftMs, 0.95),
      p99: percentile(ttftMs, 0.99),
    },
    outputTokensPerSec: lastMs > firstMs ? (outputTokens / (lastMs - firstMs)) * 1000 : 0,
    maxWaiting: Math.max(0, ...run.workers.map((worker) => worker.maxWaiting)),
    truthChanges: run.truthChanges,
    violations: checkRun(run),
    ...(run.fabric !== undefined ? { split: summarizeSplits(run) } : {}),
  };
}

/** One line for several seeds: counts added up, all else averaged. */
export function combine(runs: readonly RunSummary[]): RunSummary {
  const first = runs[0]!;
  const sum = (of: (run: RunSummary) => number): number =>
    runs.reduce((total, run) => total + of(run), 0);
  const mean = (of: (run: RunSummary) => number): number => sum(of) / runs.length;
  return {
    ...first,
    requests: sum((run) => run.requests),
    completed: sum((run) => run.completed),
    rejected: sum((run) => run.rejected),
    failed: sum((run) => run.failed),
    repeats: sum((run) => run.repeats),
    hits: sum((run) => run.hits),
    cachedRatio: mean((run) => run.cachedRatio),
    expectedCachedRatio: mean((run) => run.expectedCachedRatio),
    ttftMs: {
      p50: mean((run) => run.ttftMs.p50),
      p95: mean((run) => run.ttftMs.p95),
      p99: mean((run) => run.ttftMs.p99),
    },
    outputTokensPerSec: mean((run) => run.outputTokensPerSec),
    maxWaiting: Math.max(...runs.map((run) => run.maxWaiting)),
    truthChanges: runs.flatMap((run) => run.truthChanges),
    violations: runs.flatMap((run) => run.violations),
    ...combineSplits(runs.flatMap(({ split }) => split ?? [])),
  };
}
