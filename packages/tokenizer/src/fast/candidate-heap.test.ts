import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CandidateHeap } from './candidate-heap.ts';

test('keys come out in order, whether appended at once or pushed later', () => {
  fc.assert(
    fc.property(fc.array(fc.nat()), fc.array(fc.nat()), (appended, pushed) => {
      const heap = new CandidateHeap();
      for (const key of appended) heap.append(key);
      heap.order();
      for (const key of pushed) heap.push(key);
      const popped: number[] = [];
      while (heap.size > 0) popped.push(heap.pop());
      assert.deepEqual(
        popped,
        [...appended, ...pushed].toSorted((a, b) => a - b),
      );
    }),
  );
});

test('grows past its first size and is empty after shrinking', () => {
  const heap = new CandidateHeap();
  for (let key = 1000; key > 0; key--) heap.push(key);
  assert.equal(heap.pop(), 1);
  heap.shrink(16);
  assert.equal(heap.size, 0);
  heap.push(5);
  assert.equal(heap.pop(), 5);
});
