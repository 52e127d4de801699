import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Histogram, Registry } from 'prom-client';
import { LateHistogram } from './late-histogram.ts';

test('what is read is what a histogram of prom-client shows for the same values, at any time', async () => {
  const late = new Registry();
  const usual = new Registry();
  const settings = { name: 'gap_seconds', help: 'Gaps', buckets: [0.25, 0.5, 4] };
  const kept = new LateHistogram({ ...settings, registers: [late] });
  const told = new Histogram({ ...settings, registers: [usual] });
  for (let at = 0; at < 1_000; at++) {
    const value = (at % 37) / 8;
    kept.observe(value);
    told.observe(value);
    if (at % 333 === 0) assert.equal(await late.metrics(), await usual.metrics());
  }
  assert.equal(await late.metrics(), await usual.metrics());
  assert.equal(await late.metrics(), await usual.metrics());
});

test('what is no number is refused where it is observed, and costs no other value', async () => {
  const registry = new Registry();
  const settings = { name: 'gap_seconds', help: 'Gaps', buckets: [1], registers: [registry] };
  const histogram = new LateHistogram(settings);
  histogram.observe(0.5);
  assert.throws(() => histogram.observe(Number.NaN), TypeError);
  histogram.observe(2);
  assert.match(await registry.metrics(), /gap_seconds_count 2/);
});
