import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createRng } from '@busbar/base';
import { chain } from '../testing.ts';
import { ReuseStats } from './reuse-stats.ts';
import { WorkingSet } from './working-set.ts';

suite('the working set', () => {
  test('holds what was asked for, ends before beginnings last, up to twice the capacity', () => {
    const stats = new ReuseStats(20);
    const set = new WorkingSet(100, stats);
    for (let i = 0; i < 4; i++) set.use(chain(`p${i}`, 45), i);
    assert.equal(set.blocks, 180);
    set.use(chain('p4', 45), 4);
    assert.equal(set.blocks, 200);
    assert.equal(set.depth(chain('p4', 45)), 45);
    assert.equal(set.depth(chain('p0', 45)), 20, 'its end went first');
    assert.equal(set.depth(chain('other', 45)), 0);
  });

  test('lets go of what nobody asks for any more', () => {
    const stats = new ReuseStats(20);
    const set = new WorkingSet(1_000, stats);
    set.use(chain('dead', 50), 0);
    for (let at = 1; at <= 10; at++) set.use(chain('alive', 50), at * 100);
    assert.equal(set.blocks, 50);
    assert.equal(set.depth(chain('dead', 50)), 0);
  });

  test('of a big cache is sampled and right in the mean', () => {
    const stats = new ReuseStats(20);
    const set = new WorkingSet(100_000, stats);
    for (let i = 0; i < 400; i++) set.use(chain(`p${i}`, 100), i);
    assert.ok(Math.abs(set.blocks - 40_000) < 3_000, `${set.blocks}`);
    const depths = Array.from({ length: 400 }, (_, i) => set.depth(chain(`p${i}`, 100)));
    const mean = depths.reduce((sum, depth) => sum + depth, 0) / 400;
    assert.ok(mean > 30 && mean <= 100, `${mean}`);
  });
});

suite('reuse', () => {
  test('is assumed at first, and no longer when the caches are half full of waste', () => {
    const stats = new ReuseStats(20);
    const set = new WorkingSet(1_000, stats);
    for (let i = 0; i < 10; i++) set.use(chain(`p${i}`, 100), i);
    assert.equal(stats.reuseRatio, 1);
    for (let i = 10; i < 16; i++) set.use(chain(`p${i}`, 100), i);
    assert.ok(stats.reuseRatio < 0.05, `${stats.reuseRatio}`);
    set.dispose();
    assert.equal(stats.capacityBlocks, 0);
    assert.equal(stats.doubtfulBlocks, 0);
  });

  test('in shuffled rounds is regular, at random times it is not', () => {
    const rng = createRng(5);
    const regular = new ReuseStats(20);
    const random = new ReuseStats(20);
    for (let i = 0; i < 400; i++) {
      regular.onReuse(1, 1_000 * (1 + rng.next() - rng.next()));
      random.onReuse(1, -1_000 * Math.log(1 - rng.next()));
    }
    assert.ok(regular.regularity > 0.9, `${regular.regularity}`);
    assert.ok(random.regularity < 0.1, `${random.regularity}`);
  });
});
