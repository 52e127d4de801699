import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SlotPool } from './slot-pool.ts';

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
