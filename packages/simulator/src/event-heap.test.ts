import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { EventHeap } from './event-heap.ts';

it('runs events by time, and those of one instant in the order of planning', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 80 }), (times) => {
      const heap = new EventHeap();
      const ran: [number, number][] = [];
      times.forEach((atMs, i) => {
        heap.at(atMs, () => {
          ran.push([heap.nowMs, i]);
          if (i % 3 === 0) heap.after(i % 5, () => ran.push([heap.nowMs, 1000 + ran.length]));
        });
      });
      while (heap.step());
      assert.equal(ran.length, times.length + Math.ceil(times.length / 3));
      const sorted = ran.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]);
      assert.deepEqual(
        ran.filter(([, i]) => i < 1000),
        sorted.filter(([, i]) => i < 1000),
      );
      for (let i = 1; i < ran.length; i++) assert.ok(ran[i]![0] >= ran[i - 1]![0]);
    }),
  );
});
