import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Recent } from './recent.ts';

test('items are forgotten with time, and counted only when they are forgotten for their number', (t) => {
  let nowMs = 0;
  t.mock.method(performance, 'now', () => nowMs);
  let forgotten = 0;
  const recent = new Recent<number>(2, (count) => {
    forgotten += count;
  });
  const add = (...items: number[]): void => {
    for (const item of items) recent.add(item);
  };
  add(1, 2, 3, 4);
  assert.deepEqual([recent.all(), forgotten], [[1, 2, 3, 4], 0]);
  add(5);
  assert.deepEqual([recent.all(), forgotten], [[3, 4, 5], 2]);
  nowMs = 10_001;
  add(6);
  nowMs = 20_002;
  add(7);
  assert.deepEqual([recent.all(), forgotten], [[6, 7], 2], 'their time was over');
  recent.hold();
  nowMs = 40_000;
  add(8);
  assert.deepEqual(recent.all(), [6, 7, 8], 'time does not count now');
  add(9);
  assert.deepEqual([recent.all(), forgotten], [[7, 8, 9], 3]);
  recent.release();
  nowMs = 60_000;
  add(10);
  assert.deepEqual([recent.all(), forgotten], [[9, 10], 3]);
});
