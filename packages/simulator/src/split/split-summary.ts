import { percentile } from '../percentile.ts';
import type { SimulationRun } from '../simulation.ts';

/** What a run with prefill workers adds to its figures. */
export interface SplitSummary {
  /** Requests whose first token rests on KV that was fetched, and those that one worker served. */
  splits: number;
  whole: number;
  /** Requests that were split and then served whole all the same. */
  fallbacks: number;
  /** Time between two tokens, the mean of each request. */
  itlMs: { p50: number; p95: number };
  /** Mean time from the arrival of a request to its first token, and to its last. */
  meanTtftMs: number;
  meanTotalMs: number;
  /** KV that arrived at decode workers. */
  bytesMoved: number;
  /** From the end of a prefill to the first token: means of what routers predicted and of what they saw. */
  predictedTransferMs: number;
  observedTransferMs: number;
}

/** Undefined figures are 0: a run without any transfer has none to predict. */
export function summarizeSplits(run: SimulationRun): SplitSummary {
  const itlMs: number[] = [];
  const ttftMs: number[] = [];
  const totalMs: number[] = [];
  let splits = 0;
  let fallbacks = 0;
  let served = 0;
  for (const record of run.records) {
    const { arrivedMs, firstTokenMs, endedMs, outputTokens } = record;
    if (firstTokenMs === undefined || endedMs === undefined) continue;
    served++;
    if (record.isFetched) splits++;
    else if (record.splits > 0) fallbacks++;
    ttftMs.push(firstTokenMs - arrivedMs);
    totalMs.push(endedMs - arrivedMs);
    if (outputTokens > 1) itlMs.push((endedMs - firstTokenMs) / (outputTokens - 1));
  }
  itlMs.sort((a, b) => a - b);
  return {
    splits,
    whole: served - splits,
    fallbacks,
    itlMs: { p50: percentile(itlMs, 0.5), p95: percentile(itlMs, 0.95) },
    meanTtftMs: mean(ttftMs),
    meanTotalMs: mean(totalMs),
    bytesMoved: run.fabric?.network.bytesMoved ?? 0,
    predictedTransferMs: mean(run.transfers.map(({ predictedMs }) => predictedMs)),
    observedTransferMs: mean(run.transfers.map(({ observedMs }) => observedMs)),
  };
}

/** One line for several seeds: counts added up, all else averaged. */
export function combineSplits(runs: readonly SplitSummary[]): { split?: SplitSummary } {
  if (runs.length === 0) return {};
  const sum = (of: (run: SplitSummary) => number): number =>
    runs.reduce((total, run) => total + of(run), 0);
  const average = (of: (run: SplitSummary) => number): number => sum(of) / runs.length;
  // Runs without a transfer have no times of any.
  const moved = runs.filter(({ observedTransferMs }) => observedTransferMs > 0);
  return {
    split: {
      splits: sum((run) => run.splits),
      whole: sum((run) => run.whole),
      fallbacks: sum((run) => run.fallbacks),
      itlMs: { p50: average((run) => run.itlMs.p50), p95: average((run) => run.itlMs.p95) },
      meanTtftMs: average((run) => run.meanTtftMs),
      meanTotalMs: average((run) => run.meanTotalMs),
      bytesMoved: sum((run) => run.bytesMoved),
      predictedTransferMs: mean(moved.map((run) => run.predictedTransferMs)),
      observedTransferMs: mean(moved.map((run) => run.observedTransferMs)),
    },
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
