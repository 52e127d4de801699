import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BlockLru } from './block-lru.ts';

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
