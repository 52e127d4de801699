import type { Rng } from '@busbar/base';
import {
  type DisaggregationMode,
  ROUTER_DEFAULTS,
  type RouterConfig,
  type RouterCore,
} from '@busbar/routing';
import { type CompareOptions, type RunOptions, runOnce } from '../compare.ts';
import { routerFactory } from '../router-factory.ts';
import { combine, type RunSummary } from '../summary.ts';
import type { SplitSummary } from './split-summary.ts';

export interface SplitRun extends RunSummary {
  mode: DisaggregationMode;
  linkGbit: number;
  split: SplitSummary;
}

/** What all runs of a comparison share. `workersOf` must name prefill workers too. */
export interface SplitSetup extends Omit<RunOptions, 'createRouter' | 'fabric' | 'workersOf'> {
  workersOf: NonNullable<RunOptions['workersOf']>;
  createCore: (config: RouterConfig, rng: Rng) => RouterCore;
  thresholdTokens?: number;
  kvBytesPerToken: number;
}

export interface CompareSplitsOptions
  extends SplitSetup,
    Pick<CompareOptions, 'workloads' | 'policies' | 'seeds'> {
  modes: readonly DisaggregationMode[];
  linkGbits: readonly number[];
}

/** From the begin of a transfer to its first byte: an exchange over a local network. */
export const LINK_LATENCY_MS = 0.2;

/** Runs every workload over links of each rate, in each mode, under each policy; one summary for each, over all seeds. */
export function compareSplits(options: CompareSplitsOptions): SplitRun[] {
  const runs: SplitRun[] = [];
  for (const workload of options.workloads) {
    for (const gbit of options.linkGbits) {
      for (const policy of options.policies) {
        for (const mode of options.modes) {
          const run = combine(
            options.seeds.map((seed) =>
              runOnce(splitSetup(options, mode, gbit), workload, policy, seed),
            ),
          );
          if (run.split !== undefined)
            runs.push({ ...run, split: run.split, mode, linkGbit: gbit });
        }
      }
    }
  }
  return runs;
}

/** What one run over links of `gbit` Gbit/s in one mode is made with. */
export function splitSetup(
  options: SplitSetup,
  mode: DisaggregationMode,
  gbit: number,
): RunOptions {
  const { disaggregation } = ROUTER_DEFAULTS;
  const { thresholdTokens = disaggregation.thresholdTokens, kvBytesPerToken } = options;
  return {
    ...options,
    fabric: { gbit, latencyMs: LINK_LATENCY_MS, kvBytesPerToken },
    createRouter: routerFactory(options.createCore, {
      disaggregation: { ...disaggregation, mode, thresholdTokens },
    }),
  };
}
