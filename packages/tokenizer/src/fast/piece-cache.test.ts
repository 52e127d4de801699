import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PieceCache } from './piece-cache.ts';

test('gives back what was written, at the place asked for', () => {
  const cache = new PieceCache();
  const out = new Uint32Array(80);
  cache.write('hello', Int32Array.of(7, 8, 9, 10), 3);
  assert.equal(cache.read('hello', out, 2), 3);
  assert.deepEqual([...out.subarray(0, 6)], [0, 0, 7, 8, 9, 0]);
  assert.equal(cache.read('other', out, 0), -1);
});

test('leaves long pieces out, and forgets what was not asked for in two generations', () => {
  const cache = new PieceCache();
  const out = new Uint32Array(80);
  cache.write('x'.repeat(49), Int32Array.of(1), 1);
  assert.equal(cache.read('x'.repeat(49), out, 0), -1);
  cache.write('kept', Int32Array.of(5), 1);
  cache.write('lost', Int32Array.of(6), 1);
  for (let i = 0; i < 70_000; i++) {
    cache.write(`piece ${i}`, Int32Array.of(i), 1);
    if (i % 10_000 === 0) assert.equal(cache.read('kept', out, 0), 1);
  }
  assert.equal(cache.read('lost', out, 0), -1);
  assert.equal(cache.read('kept', out, 0), 1);
  assert.equal(out[0], 5);
  assert.equal(cache.read('piece 69999', out, 0), 1);
  assert.equal(out[0], 69_999);
});
