import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRng } from './index.ts';

test('equal seeds give equal sequences, other seeds others', () => {
  const draw = (seed: number): number[] => {
    const rng = createRng(seed);
    return Array.from({ length: 8 }, () => rng.u32());
  };
  assert.deepEqual(draw(7), draw(7));
  assert.notDeepEqual(draw(7), draw(8));
});

test('int is uniform over its range', () => {
  const rng = createRng(1);
  const counts = [0, 0, 0, 0, 0];
  for (let i = 0; i < 50_000; i++) counts[rng.int(5)]! += 1;
  for (const count of counts) assert.ok(Math.abs(count - 10_000) < 400, `${count}`);
});
