import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createRng } from '@busbar/base';
import fc from 'fast-check';
import { BlockLru } from './block-lru.ts';
import { HeldBlocks } from './held-blocks.ts';
import { LearnedRate } from './learned-rate.ts';
import { chooseCheapest } from './picker.ts';
import { ReuseStats } from './reuse-stats.ts';
import { SlotPool } from './slot-pool.ts';
import { branch, chain } from './testing.ts';
import { WorkingSet } from './working-set.ts';

test('a block LRU behaves like a list, whatever the collisions', () => {
  const step = fc.record({ low: fc.nat(12).map((n) => n * 64), kind: fc.nat(3) });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 300 }),
      fc.integer({ min: 1, max: 9 }),
      (steps, capacity) => {
        const lru = new BlockLru(capacity);
        let naive: number[] = [];
        steps.forEach(({ low, kind }, nowMs) => {
          const node = lru.find(low, 1);
          assert.equal(node >= 0, naive.includes(low));
          if (kind === 0 && node >= 0) {
            lru.drop(node);
            naive = naive.filter((other) => other !== low);
          } else if (node >= 0) {
            lru.touch(node, nowMs);
            naive = [...naive.filter((other) => other !== low), low];
          } else if (kind > 0) {
            if (lru.size === capacity) {
              assert.equal(lru.lowOf(lru.oldest), naive[0]);
              lru.drop(lru.oldest);
              naive.shift();
            }
            lru.insert(low, 1, nowMs);
            naive.push(low);
          }
          const order: number[] = [];
          for (let at = lru.oldest; at >= 0; at = lru.newerOf(at)) order.push(lru.lowOf(at));
          assert.deepEqual(order, naive);
          assert.equal(lru.size, naive.length);
        });
      },
    ),
  );
});

test('held blocks are counted by worker and end with their last holder', () => {
  const names = ['a', 'b', 'a/x', 'a/y'];
  const chains = names.map((name) =>
    name.includes('/') ? branch('a', 6, name, 4) : chain(name, 10),
  );
  const step = fc.record({ slot: fc.nat(3), which: fc.nat(3), from: fc.constantFrom(0, 0, 4) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const held = new HeldBlocks();
      const live: typeof steps = [];
      for (const one of steps) {
        held.hold(one.slot, chains[one.which]!, one.from);
        live.push(one);
        if (live.length % 3 === 0) {
          const gone = live.shift()!;
          held.release(gone.slot, chains[gone.which]!, gone.from);
        }
        for (let slot = 0; slot < 4; slot++) {
          const blocks = new Set<string>();
          for (const { slot: at, which, from } of live) {
            if (at !== slot) continue;
            for (let i = from; i < 10; i++)
              blocks.add(chains[which]!.slice(i * 2, i * 2 + 2).join());
          }
          assert.equal(held.blocksOf(slot), blocks.size);
          const whole = live.some(
            ({ slot: at, which, from }) => at === slot && which === 0 && from === 0,
          );
          if (whole) assert.equal(held.depth(slot, chains[0]!, 0), 10);
        }
      }
      for (const { slot, which, from } of live) held.release(slot, chains[which]!, from);
      assert.equal(held.size, 0);
      assert.equal(held.depth(0, chains[0]!, 0), 0);
    }),
  );
});

test('slots are handed out densely, lowest first, never twice', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 80 }), (steps) => {
      const pool = new SlotPool();
      const taken: number[] = [];
      for (const step of steps) {
        if (step % 3 === 0 && taken.length > 0) {
          pool.release(taken.splice(step % taken.length, 1)[0]!);
        } else {
          const slot = pool.take();
          const lowest = Array.from({ length: 100 }, (_, i) => i).find((i) => !taken.includes(i));
          assert.equal(slot, lowest);
          taken.push(slot);
        }
      }
    }),
  );
});

suite('the cheapest', () => {
  test('is taken, and near ties are drawn evenly', () => {
    const rng = createRng(3);
    const cost = Float64Array.of(100, 50, 50.5, 90, 50.9);
    const counts = [0, 0, 0, 0, 0];
    for (let i = 0; i < 3_000; i++) counts[chooseCheapest(cost, 5, 0.02, rng)]!++;
    assert.equal(counts[0]! + counts[3]!, 0);
    for (const at of [1, 2, 4]) assert.ok(Math.abs(counts[at]! - 1_000) < 150, counts.join(' '));
    assert.equal(chooseCheapest(cost, 5, 0, rng), 1);
    assert.equal(chooseCheapest(cost, 1, 0, rng), 0);
  });
});

suite('a learned rate', () => {
  test('leaves a wrong prior fast and then follows slowly', () => {
    const rate = new LearnedRate(20);
    rate.learn(100);
    rate.learn(100);
    rate.learn(100);
    assert.ok(rate.value > 75);
    for (let i = 0; i < 50; i++) rate.learn(100);
    rate.learn(1);
    assert.ok(rate.value > 89);
  });

  test('takes no nonsense', () => {
    const rate = new LearnedRate(20);
    for (const sample of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) rate.learn(sample);
    assert.equal(rate.value, 20);
    assert.ok(new LearnedRate(0).value > 0);
  });
});

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
