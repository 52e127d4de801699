import assert from 'node:assert/strict';
import { it } from 'node:test';
import { compare } from '@busbar/simulator';
import { SETUP, workload } from './setup.ts';

function run(seed: number): string {
  const workloads = ['closed-24-tight', 'open-12', 'multi-turn', 'mooncake'].map(workload);
  const policies = ['predictive', 'random', 'power-of-two'] as const;
  return JSON.stringify(
    compare({ ...SETUP, workloads, policies, seeds: [seed], durationMs: 8_000, routers: 2 }),
  );
}

it('gives the same figures for the same seed, byte for byte, and others for another', () => {
  const first = run(5);
  assert.equal(run(5), first);
  assert.notEqual(run(6), first);
});
