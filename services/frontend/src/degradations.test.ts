import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { createSubjects } from '@busbar/protocol';
import { Degradations } from './degradations.ts';

test('a full list goes on showing what is said again, and has room again for what is new', () => {
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };
  const list = new Degradations(new MemoryNetwork().connect(), createSubjects('test'), clock);
  for (let i = 0; i < 1_024; i++) list.noPair(`m${i}`, 'no prefill worker');
  nowMs = 9_000;
  list.noPair('m7', 'no prefill worker');
  list.noPair('late', 'no prefill worker');
  assert.equal(list.reasons().length, 1_024);
  nowMs = 11_000;
  list.noPair('new', 'no prefill worker');
  assert.deepEqual(list.reasons(), [
    'model "m7": no prefill worker',
    'model "new": no prefill worker',
  ]);
  list.stop();
});
