import { type DisaggregationMode, SPLIT_LATER_TERMS, type SplitRecord } from '@busbar/routing';
import { runWorkload } from '../compare.ts';
import type { SimulationRun } from '../simulation.ts';
import type { WorkloadDefinition } from '../workload.ts';
import { type SplitSetup, splitSetup } from './compare-splits.ts';
import { type SplitSummary, summarizeSplits } from './split-summary.ts';

/** Link rates, in Gbit/s, from which on a split is better than one worker for everything. Undefined: no link is fast enough. */
export interface Crossover {
  /** The mean time to the first token of the simulated requests is lower when all are split. */
  ttftGbit: number | undefined;
  /** The same for the mean time to the last token, in which the delay of others shows. */
  totalGbit: number | undefined;
  /** The router, once it has learned the rates of its workers, predicts an earlier first token for a lone request. */
  predictedGbit: number | undefined;
  /** In mode `auto` the router splits lone requests, as it counts also what others would wait for. */
  decidedGbit: number | undefined;
}

const SLOWEST_GBIT = 0.25;
/** Behind this the bytes take no time that counts, and what is left is latency. */
const FASTEST_GBIT = 10_000;
/** Of the rate; the figures are rounded to more. */
const ACCURACY = 0.005;

/** Finds the rates by halving. `workload` should send one request at a time for the router's two to mean what they say. */
export function findCrossover(setup: SplitSetup, workload: WorkloadDefinition): Crossover {
  const run = (mode: DisaggregationMode, gbit: number): SimulationRun =>
    runWorkload(splitSetup(setup, mode, gbit), workload, 'predictive', 1);
  const figures = (mode: DisaggregationMode, gbit: number): SplitSummary =>
    summarizeSplits(run(mode, gbit));
  const whole = figures('never', 1);
  const split = memo((gbit) => figures('always', gbit));
  const wholeMs = ttftOf(lastOf(run('auto', SLOWEST_GBIT)).local.terms);
  return {
    ttftGbit: lowest((gbit) => split(gbit).meanTtftMs < whole.meanTtftMs),
    totalGbit: lowest((gbit) => split(gbit).meanTotalMs < whole.meanTotalMs),
    predictedGbit: lowest((gbit) => ttftOf(lastOf(run('always', gbit)).pair?.terms) < wholeMs),
    decidedGbit: lowest((gbit) => {
      const { splits, whole: others } = figures('auto', gbit);
      return splits > others;
    }),
  };
}

/** The lowest rate at which `wins`, given that it wins at every higher one. */
function lowest(wins: (gbit: number) => boolean): number | undefined {
  if (!wins(FASTEST_GBIT)) return undefined;
  let [low, high] = [SLOWEST_GBIT, FASTEST_GBIT];
  while (high / low > 1 + ACCURACY) {
    const middle = Math.sqrt(low * high);
    if (wins(middle)) high = middle;
    else low = middle;
  }
  return high;
}

function ttftOf(terms: Readonly<Record<string, number>> | undefined): number {
  if (terms === undefined) return Number.POSITIVE_INFINITY;
  return Object.entries(terms).reduce(
    (sum, [name, ms]) => (SPLIT_LATER_TERMS.includes(name) ? sum : sum + ms),
    0,
  );
}

/** By then the router has seen what its workers can do. */
function lastOf({ decisions }: SimulationRun): SplitRecord {
  const last = decisions.at(-1);
  if (last === undefined) throw new Error('a split was never in question');
  return last;
}

function memo<T>(of: (gbit: number) => T): (gbit: number) => T {
  const known = new Map<number, T>();
  return (gbit) => {
    const value = known.get(gbit) ?? of(gbit);
    known.set(gbit, value);
    return value;
  };
}
