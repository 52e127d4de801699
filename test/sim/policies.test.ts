import assert from 'node:assert/strict';
import { it } from 'node:test';
import { POLICIES } from '@busbar/routing';
import { compare, shortfalls, WORKLOADS } from '@busbar/simulator';
import { SETUP } from './setup.ts';

it('predictive is within 5 % of the best policy on every open workload, and the best on most', () => {
  const workloads = WORKLOADS.filter(({ name }) => !name.startsWith('closed-'));
  const runs = compare({ ...SETUP, workloads, policies: POLICIES, seeds: [1, 2, 3] });
  for (const run of runs) assert.deepEqual(run.violations, [], `${run.workload} ${run.policy}`);
  assert.deepEqual(shortfalls(runs, 'predictive'), []);
  const best = workloads.filter(({ name }) => {
    const others = runs.filter(({ workload, policy }) => {
      // The same costs on guessed caches are no other policy here.
      return workload === name && policy !== 'predictive' && policy !== 'approximate';
    });
    const own = runs.find(({ workload, policy }) => workload === name && policy === 'predictive')!;
    return others.every((other) => own.ttftMs.p95 <= other.ttftMs.p95);
  });
  assert.ok(best.length * 2 > workloads.length, `best on ${best.length} of ${workloads.length}`);
});
