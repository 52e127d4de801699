import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PolicyName } from '@busbar/routing';
import { percentile } from './percentile.ts';
import { renderPolicyTable, shortfalls } from './policy-table.ts';
import { combine, type RunSummary } from './summary.ts';
import { renderTable } from './table.ts';

function summary(policy: PolicyName, p95: number, outputTokensPerSec: number): RunSummary {
  return {
    workload: 'unique',
    policy,
    seed: 1,
    workers: 2,
    requests: 10,
    completed: 10,
    rejected: 0,
    failed: 0,
    repeats: 4,
    hits: 3,
    cachedRatio: 0.5,
    expectedCachedRatio: 0.5,
    ttftMs: { p50: 1, p95, p99: 3 },
    outputTokensPerSec,
    maxWaiting: 2,
    truthChanges: [],
    violations: [],
  };
}

describe('percentile', () => {
  it('is the nearest rank', () => {
    const sorted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    assert.equal(percentile(sorted, 0.5), 5);
    assert.equal(percentile(sorted, 0.95), 10);
    assert.equal(percentile([], 0.5), 0);
  });
});

describe('combine', () => {
  it('adds counts and averages the rest', () => {
    const both = combine([summary('kv', 10, 100), summary('kv', 30, 200)]);
    assert.equal(both.requests, 20);
    assert.equal(both.hits, 6);
    assert.equal(both.ttftMs.p95, 20);
    assert.equal(both.outputTokensPerSec, 150);
  });
});

describe('tables', () => {
  const runs = [
    summary('predictive', 104, 96),
    summary('kv', 100, 90),
    summary('random', 200, 100),
  ];

  it('align columns', () => {
    const lines = renderTable(runs);
    assert.equal(lines.length, 5);
    assert.match(lines[2]!, /^unique {4}predictive {8}10 {2} 3\/4 {2}50\.0 %/);
    const ends = lines.slice(2).map((line) => line.indexOf(' ms'));
    assert.equal(new Set(ends).size, 1);
  });

  it('mark the best policy and those within 5 % of it', () => {
    const markdown = renderPolicyTable(runs);
    assert.match(markdown, /\| unique \| \*104\* \| \*\*100\*\* \| 200 \|/);
    assert.match(markdown, /\| unique \| \*96\* \| 90 \| \*\*100\*\* \|/);
  });

  it('name where a policy falls behind', () => {
    assert.deepEqual(shortfalls(runs, 'predictive'), []);
    assert.deepEqual(shortfalls(runs, 'kv'), ['unique: 90 tok/s, best 100']);
    assert.equal(shortfalls(runs, 'random').length, 1);
  });
});
