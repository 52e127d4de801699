import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PolicyName } from '@busbar/routing';
import { type RunSummary, runOnce } from '@busbar/simulator';
import { SETUP, workload } from './setup.ts';

const SEEDS = [1, 2, 3];

function runs(name: string, policy: PolicyName, kvEvents = true): RunSummary[] {
  const options = { ...SETUP, kvEvents };
  return SEEDS.map((seed) => runOnce(options, workload(name), policy, seed));
}

describe('12 prefixes on two caches that hold 9 each', () => {
  for (const policy of ['round-robin', 'random'] as const) {
    it(`finds 30 to 48 of 60 under ${policy}, as on a real engine`, () => {
      for (const { hits, repeats } of runs('closed-12', policy)) {
        assert.equal(repeats, 60);
        assert.ok(hits >= 30 && hits <= 48, `${hits} hits`);
      }
    });
  }

  it('finds all 60 when the router knows the caches', () => {
    for (const { hits } of runs('closed-12', 'predictive')) assert.equal(hits, 60);
  });

  it('finds at least 53 when no KV event comes, and says that it noticed', () => {
    for (const { hits, truthChanges } of runs('closed-12', 'predictive', false)) {
      assert.ok(hits >= 53, `${hits} hits`);
      assert.equal(truthChanges.length, 2);
      for (const change of truthChanges) assert.match(change, /events to approximate/);
    }
  });
});

describe('more prefixes', () => {
  it('finds all 90 of 18', () => {
    for (const { hits } of runs('closed-18', 'predictive')) assert.equal(hits, 90);
  });

  it('finds all 120 of 24 on unlike caches', () => {
    for (const { hits } of runs('closed-24', 'predictive')) assert.equal(hits, 120);
  });
});

describe('24 prefixes on caches that hold 18', () => {
  it('finds at least 56 of 120, as good placement on exact LRU caches does', () => {
    const all = runs('closed-24-tight', 'predictive');
    const hits = all.reduce((sum, run) => sum + run.hits, 0);
    assert.ok(hits >= 56 * all.length, `${hits} in ${all.length} runs`);
  });
});

describe('expected and reported cache', () => {
  it('agree when events tell the truth', () => {
    for (const name of ['closed-18', 'open-24-tight', 'multi-turn']) {
      for (const run of runs(name, 'predictive')) {
        const gap = Math.abs(run.expectedCachedRatio - run.cachedRatio);
        assert.ok(gap < 0.05, `${name}: expected ${run.expectedCachedRatio}, ${run.cachedRatio}`);
      }
    }
  });
});
