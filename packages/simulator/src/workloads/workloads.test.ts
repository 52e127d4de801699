import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Arrival } from '../workload.ts';
import { WORKLOADS } from './catalog.ts';
import { traceWorkload } from './mooncake.ts';
import { mooncakeShape } from './mooncake-shape.ts';
import { parseMooncakeTrace } from './mooncake-trace.ts';

function first(name: string, seed: number, count: number): Arrival[] {
  const definition = WORKLOADS.find((workload) => workload.name === name)!;
  const arrivals = definition.create({ seed, workers: definition.workers }).arrivals();
  const taken: Arrival[] = [];
  for (let next = arrivals.next(); next.done !== true; next = arrivals.next()) {
    taken.push(next.value);
    if (taken.length === count) break;
  }
  return taken;
}

function sharedTokens(a: Uint32Array, b: Uint32Array): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

describe('every workload', () => {
  it('is the same for the same seed, other for another, and sorted by time', () => {
    for (const { name } of WORKLOADS) {
      const arrivals = first(name, 1, 20);
      assert.ok(arrivals.length >= 6, name);
      assert.deepEqual(first(name, 1, 20), arrivals);
      assert.notDeepEqual(first(name, 2, 20), arrivals);
      arrivals.reduce((before, { atMs }) => {
        assert.ok(atMs >= before, name);
        return atMs;
      }, 0);
    }
  });

  it('asks for at least one token of a prompt that fits the context', () => {
    for (const { name } of WORKLOADS) {
      for (const { request } of first(name, 1, 200)) {
        assert.ok(request.maxTokens >= 1);
        assert.ok(request.tokens.length >= 1 && request.tokens.length < 3900, name);
      }
    }
  });
});

describe('shared prefixes', () => {
  it('have the lengths that 1,500 and 24 English words have as tokens', () => {
    const arrivals = first('open-12', 1, 100);
    for (const { request } of arrivals) {
      assert.ok(request.tokens.length > 1545 && request.tokens.length < 1575);
    }
    const repeats = arrivals.filter(({ request }) => request.isRepeat);
    assert.equal(repeats.length, 88);
    for (const { request } of repeats) {
      const others = arrivals.filter((other) => other.request !== request);
      const longest = Math.max(
        ...others.map((other) => sharedTokens(other.request.tokens, request.tokens)),
      );
      assert.ok(longest >= 1518 && longest <= 1540, `${longest} tokens in common`);
    }
  });
});

describe('the Mooncake shape', () => {
  it('has the means of the published conversation trace', () => {
    const records = [1, 2, 3, 4].flatMap((seed) =>
      mooncakeShape({ seed, conversationsPerSec: 10, durationMs: 30_000, turnMs: 6_000 }),
    );
    const mean = (of: (record: (typeof records)[number]) => number): number =>
      records.reduce((sum, record) => sum + of(record), 0) / records.length;
    assert.ok(Math.abs(mean((record) => record.input_length) / 12_035 - 1) < 0.1);
    assert.ok(Math.abs(mean((record) => record.output_length) / 343 - 1) < 0.1);
  });

  it('repeats about 40 % of its blocks', () => {
    const records = mooncakeShape({
      seed: 1,
      conversationsPerSec: 10,
      durationMs: 30_000,
      turnMs: 6_000,
    });
    const seen = new Set<number>();
    let blocks = 0;
    for (const id of records.flatMap((record) => record.hash_ids)) {
      seen.add(id);
      blocks++;
    }
    const ratio = 1 - seen.size / blocks;
    assert.ok(ratio > 0.35 && ratio < 0.5, `${ratio}`);
  });
});

describe('a trace file', () => {
  const lines = [
    '{"timestamp": 3000, "input_length": 1100, "output_length": 80, "hash_ids": [0, 1, 9]}',
    '{"timestamp": 0, "input_length": 1024, "output_length": 8, "hash_ids": [0, 1]}',
    '',
  ];

  it('becomes requests in the order of time, equal ids becoming equal tokens', () => {
    const trace = traceWorkload(parseMooncakeTrace(lines.join('\n')), { scale: 8, timeScale: 0.5 });
    const arrivals = trace.create({ seed: 1, workers: trace.workers }).arrivals();
    const early = arrivals.next().value as Arrival;
    const late = arrivals.next().value as Arrival;
    assert.equal(arrivals.next().done, true);
    assert.deepEqual([early.atMs, late.atMs], [0, 1500]);
    assert.deepEqual([early.request.tokens.length, late.request.tokens.length], [128, 138]);
    assert.deepEqual([early.request.maxTokens, late.request.maxTokens], [1, 10]);
    assert.equal(sharedTokens(early.request.tokens, late.request.tokens), 128);
    assert.deepEqual([early.request.isRepeat, late.request.isRepeat], [false, true]);
  });

  it('is refused with the number of the bad line', () => {
    assert.throws(
      () => parseMooncakeTrace(`${lines[0]}\nnot json`),
      /line 2 of the trace: no JSON object/,
    );
    assert.throws(
      () => parseMooncakeTrace(`${lines[0]}\n{"timestamp": 1}`),
      /line 2 of the trace: input_length: [^\n]*$/,
    );
    const short = '{"timestamp": 0, "input_length": 1025, "output_length": 8, "hash_ids": [0, 1]}';
    assert.throws(() => parseMooncakeTrace(short), /2 hash ids for 1025 tokens/);
    assert.throws(() => parseMooncakeTrace('\n'), /empty/);
  });
});
