import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { BookedEvent } from '@busbar/protocol';
import { chain, type Placed, stored } from '../testing.ts';
import { codeOf, GBIT, KV_BYTES_PER_TOKEN, SplitBench } from './split.testing.ts';

const PROMPT = chain('a', 100);
const BYTES = 101 * 16 * KV_BYTES_PER_TOKEN;

function benchOf(...config: ConstructorParameters<typeof SplitBench>): SplitBench {
  const [disaggregation = {}, ...rest] = config;
  const bench = new SplitBench({ mode: 'always', ...disaggregation }, ...rest);
  bench.decode('d1');
  bench.prefill('p1');
  return bench;
}

suite('the two bookings of a split request', () => {
  test('prefill tokens are ahead of others at the prefill worker only; seats and room at both', () => {
    const bench = benchOf();
    const placed = bench.place(PROMPT);
    assert.deepEqual(
      ['d1', 'p1'].map((id) => [bench.view(id).bookedRequests, bench.view(id).bookedPrefillTokens]),
      [
        [1, 0],
        [1, 1601],
      ],
    );
    assert.equal(bench.pair('p1', 'd1').bookedBytes, BYTES);
    bench.first(bench.legOf(placed), 0);
    bench.end(bench.legOf(placed));
    assert.equal(bench.view('p1').bookedRequests, 0);
    assert.equal(bench.pair('p1', 'd1').bookedBytes, BYTES, 'the KV is still on its way');
    bench.first(placed, 1600);
    assert.equal(bench.pair('p1', 'd1').bookedBytes, 0);
    assert.equal(bench.view('d1').bookedRequests, 1);
    bench.end(placed);
    assert.equal(bench.booked(), 0);
  });

  test('are released whatever became of either, in any order', () => {
    const ends: ((bench: SplitBench, placed: Placed, leg: Placed) => void)[] = [
      (bench, placed, leg) => {
        bench.end(leg, 'cancelled');
        bench.end(placed, 'cancelled');
      },
      (bench, placed, leg) => {
        bench.end(placed, 'cancelled');
        bench.end(leg, 'cancelled');
      },
      (bench, placed, leg) => {
        bench.first(leg);
        bench.end(leg);
        bench.end(placed, 'failed');
      },
      (bench, placed, leg) => {
        bench.first(placed);
        bench.end(placed);
        bench.first(leg);
        bench.end(leg);
        bench.end(leg);
      },
      (bench) => bench.run(bench.core.onFrontendLeft('f1', bench.nowMs)),
      (bench) => bench.pass(5_100, ['d1', 'p1']),
    ];
    for (const end of ends) {
      const bench = benchOf({}, { bookingTtlMs: 5_000 });
      const placed = bench.place(PROMPT);
      assert.ok(bench.booked() > 0);
      end(bench, placed, bench.legOf(placed));
      assert.equal(bench.booked(), 0);
    }
  });

  test('go with their workers; a transfer goes with either', () => {
    for (const gone of ['p1', 'd1']) {
      const bench = benchOf();
      bench.decode('d2');
      bench.prefill('p2');
      const placed = bench.place(PROMPT, { excluded: ['p2', 'd2'] });
      bench.run(bench.core.onWorkerLeft(gone, bench.nowMs));
      for (const { bookedBytes } of bench.core.pairs(bench.nowMs)) assert.equal(bookedBytes, 0);
      bench.end(bench.legOf(placed), 'failed');
      bench.end(placed, 'failed');
      assert.equal(bench.booked(), 0);
      assert.equal(codeOf(bench.ask(PROMPT)), 'split');
    }
  });

  test('when the prefill fails, the decode worker is expected to compute the prompt', () => {
    const bench = benchOf();
    const placed = bench.place(PROMPT);
    bench.end(bench.legOf(placed), 'failed');
    assert.equal(bench.pair('p1', 'd1').bookedBytes, 0);
    assert.equal(bench.view('d1').bookedPrefillTokens, 1601);
    bench.first(placed, 0);
    assert.equal(bench.view('d1').bookedPrefillTokens, 0);
    bench.end(placed);
    assert.equal(bench.booked(), 0);
  });

  test('when the prefill is refused, so it is, and the prefill worker is not avoided', () => {
    const bench = benchOf();
    const placed = bench.place(PROMPT);
    bench.end(bench.legOf(placed), 'rejected');
    assert.equal(bench.pair('p1', 'd1').bookedBytes, 0);
    assert.equal(bench.view('d1').bookedPrefillTokens, 1601);
    bench.first(placed, 0);
    bench.end(placed);
    assert.equal(bench.booked(), 0);
    assert.equal(codeOf(bench.ask(PROMPT)), 'split');
  });

  test('siblings count on the blocks that are on their way', () => {
    const bench = benchOf();
    bench.place(PROMPT);
    const effects = bench.ask(chain('a', 100));
    const split = effects.find((effect) => effect.kind === 'reply')?.record?.split;
    assert.equal(split?.pair?.decodeCachedTokens, 1600);
    assert.equal(split.pair.prefillCachedTokens, 1600);
    assert.equal(split.pair.bytes, 16 * KV_BYTES_PER_TOKEN);
  });

  test('a transfer is compared with its prediction', () => {
    const bench = benchOf();
    bench.link('p1', 'd1', { bytesPerMs: GBIT });
    const placed = bench.place(PROMPT);
    bench.nowMs = 100;
    bench.first(bench.legOf(placed), 0);
    bench.nowMs = 1_700;
    const effects = bench.first(placed, 1600);
    const told = effects.find((effect) => effect.kind === 'transferred');
    assert.equal(told?.bytes, BYTES);
    assert.equal(told.observedMs, 1_600);
    assert.ok(told.predictedMs > BYTES / GBIT && told.predictedMs < BYTES / GBIT + 50);
  });
});

suite('cache truth', () => {
  test('is not judged by what a decode worker says of fetched prompts, but of prefill legs', () => {
    const bench = benchOf();
    for (let i = 0; i < 40; i++) {
      const hashes = chain(`p${i}`, 20);
      bench.kv('d1', bench.sequence('d1'), [stored(hashes.subarray(0, 20))]);
      bench.kv('p1', bench.sequence('p1'), [stored(hashes.subarray(0, 20))]);
      const placed = bench.place(hashes);
      bench.first(bench.legOf(placed), 0);
      bench.end(bench.legOf(placed));
      bench.first(placed, 0);
      bench.end(placed);
    }
    assert.equal(bench.view('d1').truth, 'events');
    assert.equal(bench.view('d1').expectedCachedTokensTotal, 0);
    assert.notEqual(bench.view('p1').truth, 'events');
    assert.match(bench.view('p1').reason, /expected in its cache were not there/);
  });

  test('a prefill worker that sends no events is demoted like any other', () => {
    const bench = benchOf({}, { eventGraceMs: 500 });
    const placed = bench.place(PROMPT);
    bench.first(bench.legOf(placed), 0);
    bench.end(bench.legOf(placed));
    bench.pass(1_000, ['p1', 'd1']);
    assert.equal(bench.view('p1').truth, 'approximate');
    assert.equal(bench.view('d1').truth, 'events');
  });

  test('a decode worker that stores fetched blocks without events is found by its heartbeats', () => {
    const bench = benchOf({}, { eventGraceMs: 500 });
    bench.load('d1');
    bench.place(PROMPT);
    bench.load('d1', { storedBlocksTotal: 100 });
    for (let i = 0; i < 10; i++) {
      bench.nowMs += 100;
      bench.load('d1', { storedBlocksTotal: 100 });
    }
    assert.equal(bench.view('d1').truth, 'approximate');
  });

  test('judges engines that tell their cached tokens at the end', () => {
    const bench = new SplitBench();
    bench.decode('d1');
    for (let i = 0; i < 20; i++) {
      bench.kv('d1', bench.sequence('d1'), [stored(chain(`p${i}`, 20))]);
      const { decisionId, workerId } = bench.place(chain(`p${i}`, 20));
      bench.life({ kind: 'firstToken', decisionId, workerId, ttftMs: 20 });
      const rest = { outcome: 'completed' as const, outputTokens: 8, cachedTokens: 0 };
      bench.life({ kind: 'ended', decisionId, workerId, ...rest });
    }
    assert.equal(bench.view('d1').reportedCachedTokensTotal, 0);
    assert.ok(bench.view('d1').expectedCachedTokensTotal > 0);
    assert.notEqual(bench.view('d1').truth, 'events');
  });
});

suite('bookings of other routers', () => {
  function booked(id: string, workerId: string, isFetched: boolean): BookedEvent {
    return {
      kind: 'booked',
      decisionId: id,
      routerId: 'r2',
      workerId,
      promptTokens: 1601,
      maxTokens: isFetched ? 8 : 1,
      expectedCachedTokens: 0,
      blocks: 100,
      ...(isFetched ? { isFetched } : undefined),
    };
  }

  test('count like own ones, with their transfer, whichever leg is heard of first', () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const bench = benchOf();
      const events = [booked('x', 'd1', true), booked('x.p', 'p1', false)];
      for (const at of order) bench.life(events[at]!, PROMPT);
      assert.equal(bench.view('d1').bookedPrefillTokens, 0);
      assert.equal(bench.view('p1').bookedPrefillTokens, 1601);
      assert.equal(bench.pair('p1', 'd1').bookedBytes, BYTES);
      const firstToken = { kind: 'firstToken', decisionId: 'x', workerId: 'd1' } as const;
      const effects = bench.life({ ...firstToken, cachedTokens: 0, ttftMs: 9 });
      assert.ok(effects.every(({ kind }) => kind !== 'transferred'));
      assert.equal(bench.pair('p1', 'd1').bookedBytes, 0);
      bench.run(bench.core.onFrontendLeft('f1', bench.nowMs));
      assert.equal(bench.booked(), 0);
    }
  });

  test('agree with what the booking router holds', () => {
    const [own, other] = [benchOf(), benchOf({}, { routerId: 'r2' })];
    const placed = own.place(PROMPT);
    const leg = own.legOf(placed);
    for (const [{ decisionId, workerId, expectedCachedTokens }, isFetched] of [
      [placed, true],
      [leg, false],
    ] as const) {
      const event = booked(decisionId, workerId, isFetched);
      other.life({ ...event, routerId: 'r1', expectedCachedTokens }, PROMPT);
    }
    for (const id of ['d1', 'p1']) {
      assert.equal(other.view(id).bookedRequests, own.view(id).bookedRequests);
      assert.equal(other.view(id).bookedPrefillTokens, own.view(id).bookedPrefillTokens);
    }
    assert.equal(other.pair('p1', 'd1').bookedBytes, own.pair('p1', 'd1').bookedBytes);
  });
});
