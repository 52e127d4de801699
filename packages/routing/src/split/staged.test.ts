import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { BookedEvent } from '@busbar/protocol';
import { chain, stored } from '../testing.ts';
import {
  codeOf,
  GBIT,
  KV_BYTES_PER_TOKEN,
  SplitBench,
  splitOf,
  transferOf,
} from './split.testing.ts';

const PROMPT = chain('a', 100);
const BYTES = 101 * 16 * KV_BYTES_PER_TOKEN;

/** The prompt was prefilled at p1 for d1, which then refused it. */
function refused(...config: ConstructorParameters<typeof SplitBench>): SplitBench {
  const [disaggregation = {}, ...rest] = config;
  const bench = new SplitBench({ mode: 'always', ...disaggregation }, ...rest);
  bench.decode('d1');
  bench.prefill('p1');
  const placed = bench.place(PROMPT);
  bench.first(bench.legOf(placed), 0);
  bench.end(bench.legOf(placed));
  bench.end(placed, 'failed');
  assert.equal(bench.booked(), 0);
  return bench;
}

const AGAIN = { excluded: ['d1'], kvAt: 'p1' };

suite('KV that waits where it was prefilled', () => {
  test('goes to another decode worker: one booking, one transfer, and no prefill', () => {
    const bench = refused();
    bench.decode('d2');
    bench.link('p1', 'd2', { bytesPerMs: GBIT });
    const placed = bench.place(PROMPT, AGAIN);
    assert.equal(placed.workerId, 'd2');
    assert.equal(placed.kvAt, 'p1');
    assert.equal(placed.prefill, undefined);
    assert.ok(
      placed.predictedTtftMs! > BYTES / GBIT && placed.predictedTtftMs! < BYTES / GBIT + 50,
    );
    assert.deepEqual(
      ['d2', 'p1'].map((id) => [bench.view(id).bookedRequests, bench.view(id).bookedPrefillTokens]),
      [
        [1, 0],
        [0, 0],
      ],
    );
    assert.equal(bench.pair('p1', 'd2').bookedBytes, BYTES);
    bench.nowMs = 1_500;
    const effects = bench.first(placed, 1_600);
    const told = effects.find((effect) => effect.kind === 'transferred');
    assert.deepEqual([told?.bytes, told?.observedMs], [BYTES, 1_500]);
    bench.end(placed);
    assert.equal(bench.booked(), 0);
  });

  test('is booked on the link by every router, until the first token', () => {
    const [own, other] = [refused(), refused({}, { routerId: 'r2' })];
    for (const bench of [own, other]) {
      bench.decode('d2');
      bench.link('p1', 'd2', { bytesPerMs: GBIT });
      bench.kv('d2', bench.sequence('d2'), [stored(PROMPT.subarray(0, 40))]);
    }
    const placed = own.place(PROMPT, AGAIN);
    const { decisionId, workerId, routerId, expectedCachedTokens } = placed;
    assert.ok(expectedCachedTokens > 0);
    const booked: BookedEvent = {
      kind: 'booked',
      decisionId,
      routerId,
      workerId,
      promptTokens: 1_601,
      maxTokens: 8,
      expectedCachedTokens,
      blocks: 100,
      isFetched: true,
      kvAt: 'p1',
    };
    other.life(booked, PROMPT);
    const bytes = own.pair('p1', 'd2').bookedBytes;
    assert.ok(bytes > 0 && bytes < BYTES);
    assert.equal(other.pair('p1', 'd2').bookedBytes, bytes);
    assert.equal(other.view('p1').bookedRequests, 0);
    const effects = other.first(placed, 1_600);
    assert.ok(effects.every(({ kind }) => kind !== 'transferred'));
    assert.equal(other.pair('p1', 'd2').bookedBytes, 0);
    other.end(placed);
    assert.equal(other.booked(), 0);
    other.life({ ...booked, kvAt: 'p9' }, PROMPT);
    assert.equal(other.view('d2').bookedPrefillTokens, 0, 'a keeper that is not known here');
  });

  test('is fetched from a worker that may prefill nothing more, and the record says so', () => {
    const bench = refused();
    bench.decode('d2');
    bench.pass(2_000, ['d1', 'd2']);
    const effects = bench.ask(PROMPT, AGAIN);
    const { pair, reason } = splitOf(effects);
    assert.match(reason, / and no prefill is left, /);
    assert.equal(pair?.prefillCachedTokens, 1_601);
    const sum = Object.values(pair.terms).reduce((ms, term) => ms + term, 0);
    assert.ok(Math.abs(sum - pair.totalMs) < 1e-9);
  });

  test('is preferred to another prefill, even of workers and over links that look better', () => {
    const bench = refused();
    for (let i = 0; i < 6; i++) bench.join(`a${i}`);
    bench.decode('d2', { prefillTokensPerMs: 1 });
    bench.prefill('p2');
    bench.link('p1', 'd2', { bytesPerMs: GBIT });
    bench.link('p2', 'd2', { bytesPerMs: GBIT * 100 });
    for (let i = 0; i < 5; i++) {
      const placed = bench.place(PROMPT, AGAIN);
      assert.deepEqual([placed.workerId, placed.kvAt], ['d2', 'p1']);
      bench.end(placed);
    }
  });

  test('is left alone when no decode worker makes a pair with its keeper, or the keeper is gone', () => {
    const other = { revision: { engine: 'mock 2' } };
    const bench = refused();
    bench.decode('d2', { transfer: transferOf('host-d2', other) });
    assert.equal(codeOf(bench.ask(PROMPT, AGAIN)), 'whole');
    bench.prefill('p2', { transfer: transferOf('host-p2', other) });
    const placed = bench.place(PROMPT, AGAIN);
    assert.deepEqual([placed.prefill?.workerId, placed.kvAt], ['p2', undefined]);
    const gone = refused();
    gone.decode('d2');
    gone.run(gone.core.onWorkerLeft('p1', gone.nowMs));
    assert.equal(codeOf(gone.ask(PROMPT, AGAIN)), 'whole');
  });

  test('in mode auto it must pay like any other transfer', () => {
    for (const [bytesPerMs, kvAt] of [
      [GBIT, undefined],
      [GBIT * 100, 'p1'],
    ] as const) {
      const auto = new SplitBench();
      auto.decode('d2');
      auto.prefill('p1');
      auto.link('p1', 'd2', { bytesPerMs });
      const placed = auto.place(PROMPT, AGAIN);
      assert.equal(placed.kvAt, kvAt);
      assert.equal(placed.prefill, undefined);
    }
  });
});
