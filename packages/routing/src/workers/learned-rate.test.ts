import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { LearnedRate } from './learned-rate.ts';

suite('a learned rate', () => {
  test('leaves a wrong prior fast and then follows slowly', () => {
    const rate = new LearnedRate(20);
    rate.learn(100);
    rate.learn(100);
    rate.learn(100);
    assert.ok(rate.value > 75);
    for (let i = 0; i < 50; i++) rate.learn(100);
    rate.learn(1);
    assert.ok(rate.value > 89);
  });

  test('takes no nonsense', () => {
    const rate = new LearnedRate(20);
    for (const sample of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) rate.learn(sample);
    assert.equal(rate.value, 20);
    assert.ok(new LearnedRate(0).value > 0);
  });
});
