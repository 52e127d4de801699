import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createRng } from '@busbar/base';
import { chooseCheapest } from './picker.ts';

suite('the cheapest', () => {
  test('is taken, and near ties are drawn evenly', () => {
    const rng = createRng(3);
    const cost = Float64Array.of(100, 50, 50.5, 90, 50.9);
    const counts = [0, 0, 0, 0, 0];
    for (let i = 0; i < 3_000; i++) counts[chooseCheapest(cost, 5, 0.02, rng)]!++;
    assert.equal(counts[0]! + counts[3]!, 0);
    for (const at of [1, 2, 4]) assert.ok(Math.abs(counts[at]! - 1_000) < 150, counts.join(' '));
    assert.equal(chooseCheapest(cost, 5, 0, rng), 1);
    assert.equal(chooseCheapest(cost, 1, 0, rng), 0);
  });
});
