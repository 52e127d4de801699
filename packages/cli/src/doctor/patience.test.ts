import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Patience } from './patience.ts';

test('an answer is handed on, a failure is none, and what never ends is given up and kept', async () => {
  const patience = new Patience();
  assert.equal(await patience.wait('a', 1_000, Promise.resolve(7)), 7);
  assert.equal(await patience.wait('b', 1_000, Promise.reject(new Error('no'))), undefined);
  assert.deepEqual(patience.givenUp, []);
  assert.equal(await patience.wait('asking', 20, new Promise(() => {})), undefined);
  assert.deepEqual(patience.givenUp, ['asking took longer than 0.02 s']);
});
