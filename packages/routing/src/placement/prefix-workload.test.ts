import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { askSharedPrefixes, Cluster, type ClusterOptions } from '../cluster.testing.ts';

const SEEDS = [1, 2, 3, 4, 5, 6];
const SMALL = [926, 926];

function run(prefixes: number, options: Omit<ClusterOptions, 'seed'>, seed: number) {
  const cluster = new Cluster({ ...options, seed });
  const counts = askSharedPrefixes(cluster, { prefixes, rounds: 6, inFlight: 6 }, seed);
  cluster.core.checkInvariants();
  for (const view of cluster.core.workers(cluster.nowMs)) assert.equal(view.bookedRequests, 0);
  return { ...counts, cluster };
}

suite('shared prefixes, six in flight', () => {
  for (const seed of SEEDS) {
    test(`seed ${seed}: every repeat hits where all fit`, () => {
      assert.deepEqual(hitsOf(run(12, { kvBlocks: SMALL }, seed)), [60, 60]);
      assert.deepEqual(hitsOf(run(18, { kvBlocks: SMALL }, seed)), [90, 90]);
      assert.deepEqual(hitsOf(run(24, { kvBlocks: [926, 1693] }, seed)), [120, 120]);
      assert.deepEqual(hitsOf(run(24, { kvBlocks: [1693, 926] }, seed)), [120, 120]);
    });

    test(`seed ${seed}: without KV events the guesses do as well`, () => {
      const { hits, cluster } = run(12, { kvBlocks: SMALL, hasEvents: false }, seed);
      assert.ok(hits >= 58, `${hits} of 60`);
      cluster.idle(5_000);
      for (const { truth } of cluster.core.workers(cluster.nowMs))
        assert.equal(truth, 'approximate');
    });
  }

  test('of which more are asked than fit, at least 56 of 120 hit', () => {
    const hits = SEEDS.map((seed) => run(24, { kvBlocks: SMALL }, seed).hits).toSorted(
      (a, b) => a - b,
    );
    assert.ok(hits[0]! >= 56, hits.join(' '));
  });

  test('hit by chance under policies that do not look at caches', () => {
    for (const policy of ['round-robin', 'random'] as const) {
      const hits = SEEDS.map((seed) => run(12, { kvBlocks: SMALL, config: { policy } }, seed).hits);
      const mean = hits.reduce((sum, one) => sum + one, 0) / hits.length;
      assert.ok(mean >= 30 && mean <= 48, `${policy}: ${hits.join(' ')} of 60`);
    }
  });
});

function hitsOf({ hits, repeats }: { hits: number; repeats: number }): [number, number] {
  return [hits, repeats];
}
