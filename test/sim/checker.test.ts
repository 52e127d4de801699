import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { POLICIES } from '@busbar/routing';
import { type CompareOptions, compare, type RunSummary, runOnce } from '@busbar/simulator';
import { SETUP, workload } from './setup.ts';

const SEEDS = [1, 2, 3];

function assertSound(runs: readonly RunSummary[]): void {
  for (const run of runs) {
    assert.deepEqual(run.violations, [], `${run.workload} under ${run.policy}`);
    assert.equal(run.completed + run.failed + run.rejected, run.requests);
  }
}

describe('every request ends once, and nothing is left over', () => {
  for (const policy of POLICIES) {
    it(`under ${policy}, on quiet workers`, () => {
      const workloads = ['closed-24', 'open-24-tight', 'unique', 'multi-turn', 'mooncake'];
      const runs = compare({
        ...SETUP,
        workloads: workloads.map(workload),
        policies: [policy],
        seeds: SEEDS,
        durationMs: 6_000,
      });
      assertSound(runs);
      for (const run of runs) assert.equal(run.completed, run.requests);
    });

    it(`under ${policy}, while workers die and join`, () => {
      const runs = compare({ ...SETUP, ...CHURN, policies: [policy], seeds: SEEDS });
      assertSound(runs);
      const failed = runs.reduce((sum, run) => sum + run.failed, 0);
      assert.ok(failed > 0, 'a worker died with requests under way');
      for (const run of runs) assert.equal(run.rejected, 0);
    });
  }

  it('with three routers that hear of each other only by life events', () => {
    const workloads = ['open-18', 'hot-prefix'].map(workload);
    const policies = ['predictive', 'kv', 'approximate'] as const;
    const options = { ...SETUP, workloads, policies, seeds: [1], durationMs: 6_000, routers: 3 };
    assertSound(compare(options));
  });

  it('when everything dies and something comes back', () => {
    const workers = [
      { kvBlocks: 926, speed: 1, killMs: 2_000 },
      { kvBlocks: 926, speed: 1, joinMs: 6_000 },
    ];
    const options = { ...SETUP, workersOf: () => workers, durationMs: 8_000 };
    const run = runOnce(options, workload('open-12'), 'predictive', 1);
    assertSound([run]);
    assert.ok(run.completed > 0 && run.rejected + run.failed > 0);
  });
});

const CHURN: Pick<CompareOptions, 'workloads' | 'workersOf' | 'durationMs'> = {
  workloads: ['open-12', 'unique'].map(workload),
  durationMs: 10_000,
  workersOf: () => [
    { kvBlocks: 926, speed: 1 },
    { kvBlocks: 926, speed: 1, killMs: 3_000 },
    { kvBlocks: 1693, speed: 1, joinMs: 4_000 },
    { kvBlocks: 500, speed: 0.5, joinMs: 1_000, killMs: 7_000 },
  ],
};
