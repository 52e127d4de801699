import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BoundedQueue } from './index.ts';

test('keeps order, refuses at its limit, accepts again after a shift', () => {
  const queue = new BoundedQueue<number>(3);
  assert.deepEqual(
    [queue.push(1), queue.push(2), queue.push(3), queue.push(4)],
    [true, true, true, false],
  );
  assert.equal(queue.shift(), 1);
  assert.equal(queue.push(5), true);
  assert.deepEqual(
    [queue.shift(), queue.shift(), queue.shift(), queue.shift()],
    [2, 3, 5, undefined],
  );
});

test('does not keep what was shifted', () => {
  const queue = new BoundedQueue<number>(10_000);
  for (let i = 0; i < 100_000; i++) {
    queue.push(i);
    assert.equal(queue.shift(), i);
  }
  assert.equal(queue.length, 0);
});
