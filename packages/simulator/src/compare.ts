import type { EngineProfile } from '@busbar/mocker';
import type { PolicyName, RouterCore } from '@busbar/routing';
import { simulate } from './simulation.ts';
import { combine, type RunSummary, summarize } from './summary.ts';
import { DEFAULT_TIMING, type Timing } from './timing.ts';
import type { WorkerSpec, WorkloadDefinition } from './workload.ts';

export interface CompareOptions {
  workloads: readonly WorkloadDefinition[];
  policies: readonly PolicyName[];
  seeds: readonly number[];
  profile: EngineProfile;
  createRouter(routerId: string, policy: PolicyName, seed: number): RouterCore;
  /** In place of the workers that a workload is meant for. */
  workersOf?(workload: WorkloadDefinition): readonly WorkerSpec[];
  /** How long open loops ask, in place of their own time. */
  durationMs?: number | undefined;
  routers?: number;
  kvEvents?: boolean;
  timing?: Partial<Timing>;
}

const BLOCK_SIZE = 16;
const CONTEXT_TOKENS = 4096;

/** Runs every workload under every policy, once for each seed, and answers one summary for each pair. */
export function compare(options: CompareOptions): RunSummary[] {
  const summaries: RunSummary[] = [];
  for (const workload of options.workloads) {
    for (const policy of options.policies) {
      summaries.push(
        combine(options.seeds.map((seed) => runOnce(options, workload, policy, seed))),
      );
    }
  }
  return summaries;
}

/** One run of one workload under one policy. */
export function runOnce(
  options: Omit<CompareOptions, 'workloads' | 'policies' | 'seeds'>,
  workload: WorkloadDefinition,
  policy: PolicyName,
  seed: number,
): RunSummary {
  const workers = options.workersOf?.(workload) ?? workload.workers;
  const run = simulate({
    workload: workload.create({ seed, workers, durationMs: options.durationMs }),
    workers,
    policy,
    seed,
    profile: options.profile,
    routers: options.routers ?? 1,
    blockSize: BLOCK_SIZE,
    contextTokens: CONTEXT_TOKENS,
    kvEvents: options.kvEvents ?? true,
    timing: { ...DEFAULT_TIMING, ...options.timing },
    createRouter: options.createRouter,
  });
  return summarize(run, { workload: workload.name, policy, seed });
}
