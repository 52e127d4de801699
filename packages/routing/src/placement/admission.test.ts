import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Bench, benchOfThree, chain, replyOf, stored, THREE } from '../testing.ts';
import type { RouterEffect } from '../types.ts';

suite('admission', () => {
  test('refuses at once what no worker that is known will take', () => {
    const bench = benchOfThree();
    const codeOf = (request: Parameters<Bench['ask']>[1]): string => {
      const reply = replyOf(bench.ask(chain('a', 4), request));
      return reply?.kind === 'reject' ? reply.code : 'placed';
    };
    assert.equal(codeOf({ model: 'unknown' }), 'ROUTER_NO_WORKERS');
    assert.equal(codeOf({ promptTokens: 16_384 }), 'ROUTER_BAD_REQUEST');
    assert.equal(codeOf({ lora: 'nobody has it' }), 'ROUTER_NO_WORKERS');
    for (const request of [{ model: 'unknown' }, { lora: 'nobody has it' }]) {
      const reply = replyOf(bench.ask(chain('a', 4), request));
      assert.ok(reply?.kind === 'reject' && (reply.retryAfterMs ?? 0) > 0);
    }
  });

  test('sends adapters only where they are, and never to excluded or draining workers', () => {
    const bench = benchOfThree();
    bench.join('w4', { loras: ['sql'] });
    assert.equal(bench.place(chain('a', 4), { lora: 'sql' }).workerId, 'w4');
    bench.load('w2', { state: 'draining' });
    for (let i = 0; i < 20; i++) {
      const { workerId } = bench.place(chain(`p${i}`, 4), { excluded: ['w1', 'w4'] });
      assert.equal(workerId, 'w3');
    }
  });

  test('hears of adapters that come and go, and forgets nothing else of the worker', () => {
    const bench = benchOfThree();
    bench.join('w4');
    const placed = bench.place(chain('a', 4), { excluded: THREE });
    const tell = (loras: string[]): void => {
      const info = { ...bench.info, loras };
      bench.run(bench.core.onWorkerJoined('w4', 1, info, bench.nowMs));
    };
    tell(['sql']);
    assert.equal(bench.place(chain('b', 4), { lora: 'sql' }).workerId, 'w4');
    assert.equal(bench.view('w4').bookedRequests, 2);
    bench.end(placed);
    tell([]);
    assert.equal(replyOf(bench.ask(chain('c', 4), { lora: 'sql' }))?.kind, 'reject');
    assert.equal(bench.view('w4').bookedRequests, 1);
  });

  test('lets requests wait for workers that are silent, and places them in order when one is back', () => {
    const bench = benchOfThree();
    bench.nowMs = 1_000;
    const asked = [1, 2, 3].map((i) => bench.ask(chain(`p${i}`, 4)));
    assert.deepEqual(
      asked.map((effects) => replyOf(effects)),
      [undefined, undefined, undefined],
    );
    bench.nowMs = 1_100;
    const effects = bench.load('w2');
    const keys = effects.flatMap((effect) => (effect.kind === 'reply' ? [effect.key] : []));
    assert.deepEqual(keys, [0, 1, 2]);
    assert.equal(bench.view('w2').bookedRequests, 3);
  });

  test('knows after an outage of the bus what it knew before, whichever worker is heard first', () => {
    const bench = benchOfThree();
    bench.kv('w3', 1, [stored(chain('a', 100))]);
    bench.nowMs = 10_000;
    assert.ok(THREE.every((id) => !bench.view(id).isAvailable));
    bench.run(bench.core.onReconnected(bench.nowMs));
    assert.ok(THREE.every((id) => bench.view(id).isAvailable));
    bench.load('w1');
    assert.equal(bench.place(chain('a', 100)).workerId, 'w3');
    bench.nowMs += 1_000;
    bench.load('w1');
    const available = THREE.filter((id) => bench.view(id).isAvailable);
    assert.deepEqual(available, ['w1'], 'silence counts again from the return on');
  });

  test('serves who waited through an outage of the bus once it is back', () => {
    const bench = benchOfThree();
    bench.nowMs = 1_000;
    assert.equal(replyOf(bench.ask(chain('a', 4))), undefined);
    assert.equal(replyOf(bench.run(bench.core.onReconnected(1_001)))?.kind, 'place');
  });

  test('lets requests outlast a pause of all workers that are not gone, and no longer than their leases could', () => {
    const bench = benchOfThree({ queueWaitMs: 1_000 });
    const tick = (nowMs: number): RouterEffect[] => {
      bench.nowMs = nowMs;
      return bench.run(bench.core.onTick(nowMs));
    };
    bench.nowMs = 1_000;
    for (const i of [1, 2]) assert.equal(replyOf(bench.ask(chain(`p${i}`, 4))), undefined);
    assert.equal(replyOf(bench.ask(chain('hasty', 4), { deadlineMs: 2_000 })), undefined);
    const waits = tick(2_000);
    assert.equal(replyOf(waits), undefined, 'the usual wait is over, and all are silent still');
    assert.ok(waits.some((effect) => effect.kind === 'wake' && effect.atMs === 2_800));
    const hasty = replyOf(tick(2_800));
    assert.equal(hasty?.kind === 'reject' && hasty.message, 'no worker was heard of in time');
    bench.nowMs = 4_000;
    const placed = bench.load('w3').filter((effect) => effect.kind === 'reply');
    assert.deepEqual(
      placed.map(({ key, reply }) => [key, reply.kind]),
      [
        [0, 'place'],
        [1, 'place'],
      ],
    );
    bench.nowMs = 10_000;
    assert.equal(replyOf(bench.ask(chain('late', 4), { deadlineMs: 60_000 })), undefined);
    assert.equal(replyOf(tick(11_000)), undefined);
    assert.equal(replyOf(tick(14_499)), undefined);
    const late = replyOf(tick(14_500));
    assert.equal(late?.kind === 'reject' && late.code, 'ROUTER_WORKERS_SILENT');
  });

  for (const [state, isHeard, code] of [
    ['here', true, 'ROUTER_DEADLINE'],
    ['silent', false, 'ROUTER_WORKERS_SILENT'],
  ] as const) {
    test(`waits no longer for workers that failed it, and says whether they are ${state}`, () => {
      const bench = benchOfThree({ queueWaitMs: 1_000 });
      bench.nowMs = 1_000;
      const excluded = { excluded: THREE, deadlineMs: 60_000 };
      assert.equal(replyOf(bench.ask(chain('a', 4), excluded)), undefined);
      bench.nowMs = 1_900;
      if (isHeard) bench.load('w2');
      bench.nowMs = 2_000;
      const reply = replyOf(bench.run(bench.core.onTick(bench.nowMs)));
      assert.equal(reply?.kind === 'reject' && reply.code, code);
    });
  }

  test('waits for the first sync of a new worker', () => {
    const bench = new Bench();
    bench.run(bench.core.onWorkerJoined('w1', 1, bench.info, 0));
    assert.equal(replyOf(bench.ask(chain('a', 4))), undefined);
    const effects = bench.snapshot('w1', 7, chain('a', 4));
    const reply = replyOf(effects);
    assert.equal(reply?.kind === 'place' && reply.expectedCachedTokens, 64);
  });

  test('is bounded in number and in time', () => {
    const bench = benchOfThree({ queueLimit: 2, queueWaitMs: 1_000 });
    bench.nowMs = 1_000;
    bench.ask(chain('a', 4), { deadlineMs: 500 });
    bench.ask(chain('b', 4));
    const full = replyOf(bench.ask(chain('c', 4)));
    assert.equal(full?.kind === 'reject' && full.code, 'ROUTER_QUEUE_FULL');
    const wakes = bench.effects.flatMap((effect) => (effect.kind === 'wake' ? [effect.atMs] : []));
    assert.ok(wakes.includes(1_450), 'an answer in time for the asker');
    bench.nowMs = 1_450;
    const first = replyOf(bench.run(bench.core.onTick(bench.nowMs)));
    assert.equal(first?.kind === 'reject' && first.code, 'ROUTER_WORKERS_SILENT');
    for (const id of THREE) bench.run(bench.core.onWorkerLeft(id, bench.nowMs));
    bench.nowMs = 2_000;
    const second = replyOf(bench.run(bench.core.onTick(bench.nowMs)));
    assert.equal(second?.kind === 'reject' && second.code, 'ROUTER_NO_WORKERS');
  });

  test('forgets who does not wait any more', () => {
    const bench = benchOfThree();
    bench.nowMs = 1_000;
    bench.ask(chain('a', 4));
    bench.ask(chain('b', 4), { frontendId: 'f2' });
    bench.run(bench.core.onRequestCancelled(0));
    bench.run(bench.core.onFrontendLeft('f2', bench.nowMs));
    assert.deepEqual(
      bench.load('w1').filter(({ kind }) => kind === 'reply'),
      [],
    );
    assert.equal(bench.booked(), 0);
  });

  test('lets a request wait for another worker when it failed on all there are', () => {
    const bench = benchOfThree();
    assert.equal(replyOf(bench.ask(chain('a', 4), { excluded: THREE })), undefined);
    const reply = replyOf(bench.join('w4'));
    assert.equal(reply?.kind === 'place' && reply.workerId, 'w4');
  });
});
