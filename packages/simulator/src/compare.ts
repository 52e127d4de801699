import type { EngineProfile } from '@busbar/mocker';
import type { PolicyName, RouterCore } from '@busbar/routing';
import { type SimulationRun, simulate } from './simulation.ts';
import { combine, type RunSummary, summarize } from './summary.ts';
import { DEFAULT_TIMING, type Timing } from './timing.ts';
import type { FabricOptions } from './transfer/fabric.ts';
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
  /** What KV moves over, where workers have prefill workers beside them. */
  fabric?: FabricOptions | undefined;
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

/** The setup of one run. */
export type RunOptions = Omit<CompareOptions, 'workloads' | 'policies' | 'seeds'>;

/** The figures of one run of one workload under one policy. */
export function runOnce(
  options: RunOptions,
  workload: WorkloadDefinition,
  policy: PolicyName,
  seed: number,
): RunSummary {
  const run = runWorkload(options, workload, policy, seed);
  return summarize(run, { workload: workload.name, policy, seed });
}

/** One run of one workload under one policy, with all that happened in it. */
export function runWorkload(
  options: RunOptions,
  workload: WorkloadDefinition,
  policy: PolicyName,
  seed: number,
): SimulationRun {
  const workers = options.workersOf?.(workload) ?? workload.workers;
  const decoders = workers.filter(({ role }) => role !== 'prefill');
  return simulate({
    workload: workload.create({ seed, workers: decoders, durationMs: options.durationMs }),
    workers,
    policy,
    seed,
    profile: options.profile,
    routers: options.routers ?? 1,
    blockSize: BLOCK_SIZE,
    contextTokens: CONTEXT_TOKENS,
    kvEvents: options.kvEvents ?? true,
    timing: { ...DEFAULT_TIMING, ...options.timing },
    fabric: options.fabric,
    createRouter: options.createRouter,
  });
}
