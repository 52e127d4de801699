import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { LinkLedger } from './link-ledger.ts';

const MIB = 1_048_576;
/** 1 Gbit/s over Ethernet carries about this much. */
const GIGABIT = 112_000;

const near = (actual: number, expected: number, share = 0.01): void =>
  assert.ok(Math.abs(actual - expected) <= expected * share, `${actual}, not ${expected}`);

suite('the rate of a link', () => {
  test('is bytes over time when one transfer has the link to itself', () => {
    const ledger = new LinkLedger('d', 'tcp');
    ledger.began(1, 'p', 1_000);
    const figures = ledger.ended(1, { outcome: 'ok', bytes: 351_750_000 }, 4_374);
    near(figures?.bytesPerMs ?? 0, 351_750_000 / 3_374);
    assert.equal(figures?.source, 'transfers');
    assert.equal(figures.busyMsTotal, 3_374);
    assert.equal(figures.transfers, 1);
  });

  test("stays the link's when four share it, also while only one of them has ended", () => {
    const ledger = new LinkLedger('d', 'tcp');
    const bytes = 350_000_000;
    for (const key of [1, 2, 3, 4]) ledger.began(key, 'p', 0);
    const wholeMs = (4 * bytes) / GIGABIT;
    for (const key of [1, 2, 3, 4]) {
      const figures = ledger.ended(key, { outcome: 'ok', bytes }, wholeMs + key);
      near(figures?.bytesPerMs ?? 0, GIGABIT);
    }
    near(ledger.figures('p')?.busyMsTotal ?? 0, wholeMs);
  });

  test('is found in any order of begins and ends of a fairly shared link, and busy time is their union', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            gapMs: fc.integer({ min: 0, max: 400 }),
            mib: fc.integer({ min: 2, max: 200 }),
          }),
          { minLength: 1, maxLength: 12 },
        ),
        fc.integer({ min: 2_000, max: 5_000_000 }),
        (jobs, bytesPerMs) => {
          const ledger = new LinkLedger('d', 'tcp');
          const { busyMs, events } = simulate(jobs, bytesPerMs);
          for (const event of events) {
            if (event.kind === 'began') ledger.began(event.key, 'p', event.atMs);
            else ledger.ended(event.key, { outcome: 'ok', bytes: event.bytes }, event.atMs);
          }
          const figures = ledger.figures('p');
          assert.equal(ledger.running, 0);
          assert.equal(figures?.transfers, jobs.length);
          near(figures.bytesPerMs, bytesPerMs, 0.001);
          near(figures.busyMsTotal, busyMs, 0.001);
          near(figures.bytesTotal / figures.busyMsTotal, bytesPerMs, 0.001);
        },
      ),
      { numRuns: 200 },
    );
  });

  test('follows a link that becomes slow within a few transfers', () => {
    const ledger = new LinkLedger('d', 'nixl');
    let nowMs = 0;
    const move = (bytesPerMs: number): number => {
      ledger.began(1, 'p', nowMs);
      nowMs += (100 * MIB) / bytesPerMs;
      return ledger.ended(1, { outcome: 'ok', bytes: 100 * MIB }, nowMs)?.bytesPerMs ?? 0;
    };
    for (let i = 0; i < 20; i++) move(1_000_000);
    let rate = 0;
    for (let i = 0; i < 5; i++) rate = move(GIGABIT);
    assert.ok(rate < GIGABIT * 1.2, `${rate}`);
  });
});

suite('small transfers and probes', () => {
  test('a probe speaks for the link until a large transfer does; small ones teach the latency', () => {
    const ledger = new LinkLedger('d', 'nixl');
    assert.equal(ledger.figures('p'), undefined);
    const probe = { bytesPerMs: MIB, latencyMs: 0.2 };
    assert.deepEqual(pick(ledger.probed('p', probe, 0)), ['probe', MIB, 0.2]);
    let nowMs = 10;
    for (let i = 0; i < 30; i++) {
      ledger.began(1, 'p', nowMs);
      nowMs += 80.1;
      ledger.ended(1, { outcome: 'ok', bytes: MIB / 10 }, nowMs);
    }
    const small = ledger.figures('p');
    assert.equal(small?.source, 'probe');
    assert.equal(small.bytesPerMs, MIB);
    near(small.latencyMs, 80, 0.02);
    ledger.began(1, 'p', nowMs);
    const large = ledger.ended(1, { outcome: 'ok', bytes: 800 * MIB }, nowMs + 80 + 400);
    assert.equal(large?.source, 'transfers');
    near(large.bytesPerMs, 2 * MIB, 0.02);
  });

  test('small transfers are better than nothing', () => {
    const ledger = new LinkLedger('d', 'tcp');
    ledger.began(1, 'p', 0);
    const figures = ledger.ended(1, { outcome: 'ok', bytes: 1_000 }, 10);
    assert.deepEqual([figures?.source, figures?.bytesPerMs], ['transfers', 100]);
  });

  test('long after the last transfer a probe counts, on another path only when it is faster', () => {
    for (const [protocol, probeRate, expected] of [
      ['tcp', 10, 10],
      ['tcp', 9_000, 9_000],
      ['nixl', 10, MIB],
      ['nixl', 2 * MIB, 2 * MIB],
    ] as const) {
      const ledger = new LinkLedger('d', protocol);
      ledger.began(1, 'p', 0);
      ledger.ended(1, { outcome: 'ok', bytes: 100 * MIB }, 100);
      const probe = { bytesPerMs: probeRate, latencyMs: 1 };
      assert.equal(ledger.probed('p', probe, 1_000).bytesPerMs, MIB, 'too early');
      assert.equal(ledger.probed('p', probe, 900_000).bytesPerMs, expected);
    }
  });
});

suite('failures', () => {
  test('are counted with their reason; a fetch that hung does not make the rate', () => {
    const ledger = new LinkLedger('d', 'tcp');
    ledger.began(1, 'p', 0);
    ledger.ended(1, { outcome: 'ok', bytes: 100 * MIB }, 100);
    ledger.began(2, 'p', 200);
    const failed = ledger.ended(
      2,
      { outcome: 'failed', bytes: 0, reason: 'x'.repeat(900) },
      60_000,
    );
    assert.equal(failed?.failures, 1);
    assert.equal(failed.lastFailure?.length, 512);
    assert.equal(failed.bytesPerMs, MIB);
    assert.equal(ledger.probeFailed('q', 'nobody listens').failures, 1);
    assert.equal(new LinkLedger('d', 'nixl').probeFailed('q', 'nobody listens').failures, 0);
    assert.deepEqual(
      ledger
        .all()
        .map((link) => link.prefillWorkerId)
        .toSorted(),
      ['p', 'q'],
    );
  });

  test('a cancelled transfer counts with its bytes and as neither success nor failure', () => {
    const ledger = new LinkLedger('d', 'tcp');
    ledger.began(1, 'p', 0);
    const figures = ledger.ended(1, { outcome: 'cancelled', bytes: 2 * MIB }, 2);
    assert.deepEqual([figures?.transfers, figures?.failures, figures?.bytesTotal], [0, 0, 2 * MIB]);
    assert.equal(figures?.bytesPerMs, MIB);
  });

  test('a fetch that waits for its turn is no failure, and its wait is not time of the link', () => {
    const ledger = new LinkLedger('d', 'tcp');
    ledger.began(1, 'p', 0);
    ledger.ended(1, { outcome: 'busy', bytes: 0 }, 1);
    ledger.began(1, 'p', 30_000);
    const figures = ledger.ended(1, { outcome: 'ok', bytes: 100 * MIB }, 30_100);
    assert.deepEqual([figures?.transfers, figures?.failures, figures?.busyMsTotal], [1, 0, 101]);
    assert.equal(figures?.bytesPerMs, MIB);
    assert.equal(figures.lastFailure, undefined);
  });

  test('unknown keys, keys twice and a forgotten peer leave no trace', () => {
    const ledger = new LinkLedger('d', 'tcp');
    assert.equal(ledger.ended(9, { outcome: 'ok', bytes: 1 }, 5), undefined);
    ledger.began(1, 'p', 0);
    ledger.began(1, 'p', 50);
    assert.equal(ledger.running, 1);
    assert.equal(ledger.lastNewsMs('p', 77), 77);
    ledger.forget('p');
    assert.equal(ledger.running, 0);
    assert.equal(ledger.ended(1, { outcome: 'ok', bytes: 1 }, 100), undefined);
    assert.equal(ledger.lastNewsMs('p', 77), -Infinity);
    assert.deepEqual(ledger.all(), []);
  });
});

function pick(figures: { source: string; bytesPerMs: number; latencyMs: number }): unknown[] {
  return [figures.source, figures.bytesPerMs, figures.latencyMs];
}

type Event = { atMs: number; key: number } & ({ kind: 'began' } | { kind: 'ended'; bytes: number });

/** Processor sharing, event by event: every running transfer gets an equal part of the link. */
function simulate(
  jobs: readonly { gapMs: number; mib: number }[],
  bytesPerMs: number,
): { events: Event[]; busyMs: number } {
  const events: Event[] = [];
  const running = new Map<number, { left: number; bytes: number }>();
  let nowMs = 0;
  let busyMs = 0;
  let next = 0;
  let nextAtMs = jobs[0]!.gapMs;
  while (next < jobs.length || running.size > 0) {
    const first = [...running].toSorted(([, a], [, b]) => a.left - b.left)[0];
    const endsAtMs =
      first === undefined ? Infinity : nowMs + (first[1].left * running.size) / bytesPerMs;
    const atMs = Math.min(endsAtMs, next < jobs.length ? nextAtMs : Infinity);
    if (running.size > 0) busyMs += atMs - nowMs;
    for (const job of running.values()) job.left -= ((atMs - nowMs) * bytesPerMs) / running.size;
    nowMs = atMs;
    if (first !== undefined && endsAtMs === atMs) {
      running.delete(first[0]);
      events.push({ atMs, key: first[0], kind: 'ended', bytes: first[1].bytes });
    } else {
      const bytes = jobs[next]!.mib * MIB;
      running.set(next, { left: bytes, bytes });
      events.push({ atMs, key: next, kind: 'began' });
      next++;
      nextAtMs = nowMs + (jobs[next]?.gapMs ?? 0);
    }
  }
  return { events, busyMs };
}

test('a link is proven by a warm-up or by a transfer that arrived, and by nothing else', () => {
  const ledger = new LinkLedger('d1', 'nixl');
  assert.equal(ledger.opened('p1').isProven, false);
  assert.equal(ledger.probed('p1', { bytesPerMs: 10, latencyMs: 1 }, 0).isProven, false);
  const failed = ledger.probeFailed('p1', 'it took too long');
  assert.deepEqual([failed.isProven, failed.failures], [false, 0]);
  ledger.began(1, 'p1', 1);
  assert.equal(ledger.ended(1, { outcome: 'failed', bytes: 0 }, 2)?.isProven, false);
  const proven = ledger.proven('p1');
  assert.deepEqual([proven.isProven, proven.transfers, proven.latencyMs], [true, 0, 1]);
  ledger.began(2, 'p2', 1);
  assert.equal(ledger.ended(2, { outcome: 'ok', bytes: 5 }, 2)?.isProven, true);
  ledger.forget('p1');
  assert.equal(ledger.opened('p1').isProven, false, 'another process under the same name');
});
