import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { limit } from '@busbar/protocol';
import { Bench, benchOfThree, chain, type Placed, THREE } from '../testing.ts';

suite('bookings', () => {
  test('are released whatever became of the request, and a restarted worker draws no rush', () => {
    const bench = benchOfThree({ bookingTtlMs: 5_000 });
    const stages: ((placed: Placed) => void)[] = [
      (placed) => bench.end(placed, 'cancelled'),
      (placed) => bench.end(placed, 'failed'),
      (placed) => {
        bench.first(placed);
        bench.end(placed, 'cancelled');
      },
      (placed) => {
        bench.first(placed);
        bench.first(placed);
        bench.end(placed);
        bench.end(placed);
      },
      () => undefined,
    ];
    for (let i = 0; i < 300; i++)
      stages[i % 5]!(bench.place(chain(`p${i}`, 20), { frontendId: `f${i % 5}` }));
    assert.ok(bench.booked() > 0);
    bench.run(bench.core.onFrontendLeft('f4', bench.nowMs));
    assert.equal(bench.booked(), 0);
    bench.run(bench.core.onWorkerLeft('w2', bench.nowMs));
    bench.join('w2', {}, 2);
    const counts = new Map<string, number>();
    for (let i = 0; i < 60; i++) {
      const { workerId } = bench.place(chain(`q${i}`, 20));
      counts.set(workerId, (counts.get(workerId) ?? 0) + 1);
    }
    for (const id of THREE) assert.ok((counts.get(id) ?? 0) <= 30, JSON.stringify([...counts]));
  });

  test('of requests that an idle worker does not know are dropped before they expire', () => {
    const bench = benchOfThree({ bookingTtlMs: 600_000 });
    const lost = Array.from({ length: 9 }, (_, i) => bench.place(chain(`p${i}`, 20)));
    bench.pass(limit('forgottenBookingMs') - 1_000, THREE);
    const fresh = bench.place(chain('fresh', 20));
    assert.ok(bench.booked() > lost.length);
    bench.pass(2_000, THREE);
    const views = bench.core.workers(bench.nowMs).filter((view) => view.bookedRequests > 0);
    assert.deepEqual(
      views.map(({ workerId, bookedRequests }) => [workerId, bookedRequests]),
      [[fresh.workerId, 1]],
    );
    for (const placed of [...lost, fresh]) bench.end(placed);
    assert.equal(bench.booked(), 0);
    bench.core.checkInvariants();
  });

  test('nobody ever speaks of expire', () => {
    const bench = benchOfThree({ bookingTtlMs: 5_000 });
    for (let i = 0; i < 20; i++) bench.place(chain(`p${i}`, 20));
    bench.pass(4_000, THREE);
    assert.ok(bench.booked() > 0);
    bench.pass(1_100, THREE);
    assert.equal(bench.booked(), 0);
  });

  test('of a worker that left go with it, and late words about them are ignored', () => {
    const bench = benchOfThree();
    const placed = bench.place(chain('a', 20), { workerId: 'w1' });
    bench.run(bench.core.onWorkerLeft('w1', bench.nowMs));
    assert.equal(bench.booked(), 0);
    assert.deepEqual(bench.first(placed), []);
    assert.deepEqual(bench.end(placed), []);
  });

  test('of other routers count, their own echo does not, and a repeat counts once', () => {
    const bench = benchOfThree();
    const fields = {
      workerId: 'w1',
      promptTokens: 500,
      maxTokens: 8,
      expectedCachedTokens: 100,
      blocks: 0,
    };
    bench.life({ kind: 'booked', decisionId: 'x', routerId: 'r2', ...fields });
    bench.life({ kind: 'booked', decisionId: 'x', routerId: 'r2', ...fields });
    bench.life({ kind: 'booked', decisionId: 'y', routerId: 'r1', ...fields });
    assert.equal(bench.view('w1').bookedRequests, 1);
    assert.equal(bench.view('w1').bookedPrefillTokens, 400);
    bench.life({
      kind: 'ended',
      decisionId: 'x',
      workerId: 'w1',
      outcome: 'failed',
      outputTokens: 0,
    });
    assert.equal(bench.booked(), 0);
  });

  test('move from prefill to decode at the first token', () => {
    const bench = benchOfThree();
    const placed = bench.place(chain('a', 20), { workerId: 'w1' });
    assert.equal(bench.view('w1').bookedPrefillTokens, 321);
    bench.first(placed);
    assert.equal(bench.view('w1').bookedPrefillTokens, 0);
    assert.equal(bench.view('w1').bookedRequests, 1);
  });

  test('have ids that no other router, nor the same one after a restart, gives out', () => {
    const ids = new Set<string>();
    for (const [routerId, seed] of [
      ['r1', 1],
      ['r1', 2],
      ['r2', 1],
    ] as const) {
      const bench = new Bench({ routerId }, seed);
      bench.join('w1');
      for (let i = 0; i < 50; i++) ids.add(bench.place(chain('a', 2)).decisionId);
    }
    assert.equal(ids.size, 150);
  });
});
