import { profileByName } from '@busbar/mocker';
import { createRouterCore, type DisaggregationMode } from '@busbar/routing';
import {
  compareSplits,
  SPLIT_WORKLOADS,
  type SplitRun,
  type SplitSetup,
  type WorkloadDefinition,
} from '@busbar/simulator';

/**
 * The two machines on which a prefill/decode split was measured: whole requests and decode on one with 8 GB, prefill on one that is
 * 1.9 times as fast (first tokens after 78 and 172 ms on the one, 44 and 83 on the other).
 */
export const SMALL: SplitSetup = {
  profile: profileByName('seed-8gb')!,
  kvBytesPerToken: 114_688,
  createCore: createRouterCore,
  workersOf: ({ workers }) => [...workers, { role: 'prefill', kvBlocks: 1_693, speed: 1.9 }],
};

/** A larger model, whose prefill takes longer for each byte of KV. Both caches are what 80 GB leave beside its weights. */
export const LARGE: SplitSetup = {
  ...SMALL,
  profile: profileByName('qwen3-32b-a100')!,
  kvBytesPerToken: 262_144,
  workersOf: () => [
    { kvBlocks: 1_525, speed: 1 },
    { role: 'prefill', kvBlocks: 1_525, speed: 1.9 },
  ],
};

export function words(count: number, atOnce: number): WorkloadDefinition {
  const name = `words-${count}x${atOnce}`;
  const found = SPLIT_WORKLOADS.find((workload) => workload.name === name);
  if (found === undefined) throw new Error(`no workload ${name}`);
  return found;
}

/** One run over links of one rate. */
export function splitRun(
  setup: SplitSetup,
  workload: WorkloadDefinition,
  mode: DisaggregationMode,
  gbit: number,
): SplitRun {
  const one = { workloads: [workload], policies: ['predictive'], seeds: [1] } as const;
  return compareSplits({ ...setup, ...one, modes: [mode], linkGbits: [gbit] })[0]!;
}
