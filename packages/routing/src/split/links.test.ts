import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { chain, INFO } from '../testing.ts';
import type { Flight } from './link.ts';
import { LinkTable } from './link-table.ts';
import { pairRefusal } from './pair-refusal.ts';
import { codeOf, GBIT, linkRecord, SplitBench, splitOf, transferOf } from './split.testing.ts';
import { Suspicion } from './suspicion.ts';

suite('a pair is refused', () => {
  const decode = { ...INFO, transfer: transferOf('b') };
  const prefill = { ...INFO, role: 'prefill' as const, transfer: transferOf('a') };

  test('for every difference that makes KV useless, by its name and both values', () => {
    assert.equal(pairRefusal(prefill, decode), undefined);
    const cases = [
      [{ transfer: undefined }, /the prefill worker announces no way/],
      [
        { transfer: transferOf('a', { protocol: 'nixl' }) },
        /protocol is nixl at prefill and tcp at/,
      ],
      [{ blockSize: 32 }, /block size is 32 at prefill and 16 at decode/],
      [
        { transfer: transferOf('a', { kvBytesPerToken: 7 }) },
        /per token is 7 at prefill and 114688/,
      ],
      [
        { transfer: transferOf('a', { revision: { engine: 'mock 2', kvLayout: 'HND' } }) },
        /revision engine is mock 2 .*; revision kvLayout is HND at prefill and NHD at decode/,
      ],
      [{ transfer: transferOf('a', { revision: {} }) }, /revision engine is unset at prefill/],
    ] as const;
    for (const [change, reason] of cases) {
      assert.match(pairRefusal({ ...prefill, ...change }, decode) ?? '', reason);
    }
    assert.match(pairRefusal(prefill, INFO) ?? '', /the decode worker announces no way/);
  });

  test('once for each pair of lives, and is listed while both are here', () => {
    const bench = new SplitBench();
    bench.decode('d1');
    bench.decode('d2');
    const told = bench
      .prefill('p1', { blockSize: 32 })
      .filter(({ kind }) => kind === 'pairRefused');
    assert.equal(told.length, 2);
    assert.ok(
      bench.core
        .pairs(bench.nowMs)
        .every(({ refusal }) => refusal?.includes('block size') === true),
    );
    bench.run(
      bench.core.onWorkerJoined(
        'p1',
        1,
        { ...INFO, role: 'prefill', blockSize: 32, transfer: transferOf('host-p1') },
        5,
      ),
    );
    assert.equal(bench.effects.filter(({ kind }) => kind === 'pairRefused').length, 2);
    bench.run(bench.core.onWorkerLeft('d2', 6));
    assert.equal(bench.core.pairs(bench.nowMs).length, 1);
    bench.prefill('p1', {});
    assert.deepEqual(
      bench.core.pairs(bench.nowMs).map(({ refusal }) => refusal),
      [undefined],
    );
  });

  test('never across models', () => {
    const bench = new SplitBench();
    bench.decode('d1');
    bench.prefill('p1', { model: 'other' });
    assert.deepEqual(bench.core.pairs(bench.nowMs), []);
  });
});

suite('the rate of a link', () => {
  function benchOf(): SplitBench {
    const bench = new SplitBench({ mode: 'always' });
    bench.decode('d1');
    bench.prefill('p1');
    return bench;
  }

  test('is assumed until something was measured, on it or between its hosts', () => {
    const bench = benchOf();
    assert.equal(bench.pair('p1', 'd1').source, 'assumed');
    assert.equal(bench.pair('p1', 'd1').bytesPerMs, 125_000);
    bench.link('p1', 'd1', { bytesPerMs: 0, source: 'none' });
    assert.equal(bench.pair('p1', 'd1').source, 'assumed');
    bench.link('p1', 'd1', { bytesPerMs: 7_000, source: 'probe', latencyMs: 3 });
    const { source, bytesPerMs, latencyMs } = bench.pair('p1', 'd1');
    assert.deepEqual(
      { source, bytesPerMs, latencyMs },
      { source: 'probe', bytesPerMs: 7_000, latencyMs: 3 },
    );
    bench.prefill('p2', { transfer: transferOf('host-p1', { endpoint: 'host-p1:9' }) });
    assert.equal(bench.pair('p2', 'd1').source, 'sibling');
    assert.equal(bench.pair('p2', 'd1').bytesPerMs, 7_000);
    bench.run(bench.core.onLinkGone('p1', 'd1'));
    assert.equal(bench.pair('p1', 'd1').source, 'assumed');
    assert.equal(bench.pair('p2', 'd1').source, 'assumed');
  });

  test('is known of workers that come after their record', () => {
    const bench = new SplitBench();
    bench.link('p1', 'd1', { bytesPerMs: 9_000 });
    bench.decode('d1');
    bench.prefill('p1');
    assert.equal(bench.pair('p1', 'd1').bytesPerMs, 9_000);
  });

  test('is not believed for ever when it is low: such a link gets no transfers that would prove it better', () => {
    const bench = benchOf();
    bench.decode('d2');
    bench.link('p1', 'd1', { bytesPerMs: 10 });
    bench.link('p1', 'd2', { bytesPerMs: 1e7 });
    bench.nowMs = 700_000;
    bench.run(bench.core.onTick(bench.nowMs));
    assert.equal(bench.pair('p1', 'd1').isStale, true);
    assert.equal(bench.pair('p1', 'd1').bytesPerMs, 125_000);
    assert.equal(bench.pair('p1', 'd2').bytesPerMs, 1e7);
  });

  test('failures make it suspect, for longer each time, until a transfer succeeds', () => {
    const bench = benchOf();
    bench.link('p1', 'd1', { transfers: 5, failures: 3 });
    assert.equal(codeOf(bench.ask(chain('a', 9))), 'split', 'old failures are no news');
    bench.link('p1', 'd1', { transfers: 5, failures: 4, lastFailure: 'connection refused' });
    assert.equal(bench.pair('p1', 'd1').suspectForMs, 5_000);
    const whole = bench.ask(chain('a', 9));
    assert.equal(codeOf(whole), 'whole');
    assert.match(splitOf(whole).reason, /; a transfer failed just now: connection refused$/);
    bench.pass(5_000, ['d1', 'p1']);
    assert.equal(codeOf(bench.ask(chain('a', 9))), 'split');
    bench.link('p1', 'd1', { transfers: 5, failures: 5 });
    assert.equal(bench.pair('p1', 'd1').suspectForMs, 10_000);
    bench.link('p1', 'd1', { transfers: 6, failures: 5 });
    assert.equal(bench.pair('p1', 'd1').suspectForMs, undefined);
    bench.link('p1', 'd1', { transfers: 0, failures: 1 });
    assert.ok(bench.pair('p1', 'd1').suspectForMs !== undefined, 'a restarted worker counts anew');
  });

  test('a suspicion grows within bounds', () => {
    const suspicion = new Suspicion(0);
    let nowMs = 0;
    let lastMs = 0;
    for (let i = 0; i < 40; i++) {
      suspicion.fail(nowMs);
      const spanMs = suspicion.untilMs - nowMs;
      assert.ok(spanMs >= lastMs && spanMs <= 300_000);
      lastMs = spanMs;
      nowMs = suspicion.untilMs;
    }
    assert.equal(lastMs, 300_000);
  });
});

test('booked bytes of links and of what they share are the sums of their flights, whatever happens', () => {
  const workers = ['a', 'b', 'c'].map((id, i) => ({
    workerId: id,
    info: { ...INFO, transfer: transferOf(i === 2 ? 'host-0' : `host-${i}`) },
  }));
  const step = fc.record({ kind: fc.nat(4), from: fc.nat(2), to: fc.nat(2), bytes: fc.nat(1e9) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const table = new LinkTable(GBIT);
      const links = new Map<string, ReturnType<LinkTable['open']>>();
      const flights = new Set<Flight>();
      steps.forEach(({ kind, from, to, bytes }, nowMs) => {
        const key = `${from}${to}`;
        const link = links.get(key);
        if (kind === 0 && link === undefined)
          links.set(key, table.open(workers[from]!, workers[to]!));
        else if (kind === 1 && link !== undefined) {
          table.close(link);
          links.delete(key);
          for (const flight of flights) if (flight.link === link) flights.delete(flight);
        } else if (kind === 2 && link !== undefined) flights.add(link.book(bytes, 1));
        else if (kind === 3) {
          const [flight] = flights;
          flight?.land();
          flight?.land();
          if (flight !== undefined) flights.delete(flight);
        } else if (kind === 4) {
          table.onRecord(
            linkRecord(workers[from]!.workerId, workers[to]!.workerId, { transfers: bytes }),
            nowMs,
          );
        }
        table.checkInvariants(flights.size);
        if (link !== undefined && links.has(key)) {
          const aloneMs = bytes / link.bytesPerMs(nowMs) + link.latencyMs;
          assert.ok(link.transferMs(bytes, 0, nowMs) >= aloneMs);
          assert.ok(link.transferMs(bytes, 1e12, nowMs) === aloneMs);
        }
      });
    }),
    { numRuns: 200 },
  );
});
