import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import { createTestContext } from '@busbar/service/testing';
import type { Placement } from '../candidate.ts';
import { createFrontendMetrics } from '../metrics.ts';
import { Bookings } from '../placement/bookings.ts';
import { DecisionHoldings } from '../placement/decision-holdings.ts';
import { LifePublisher } from '../placement/life-publisher.ts';
import { scriptedCandidate } from '../scripted-candidate.testing.ts';
import { until } from '../scripted-stack.testing.ts';
import { ScriptedWorker } from '../scripted-worker.testing.ts';
import { Streams } from '../streams/streams.ts';
import { WorkerWatch } from '../streams/worker-watch.ts';
import { Returns } from './returns.ts';
import { SplitRunner } from './split-runner.ts';
import { WorkSender } from './work-sender.ts';

test('KV that waited for too long is not fetched: computed where it is decoded, or the end', async () => {
  const network = new MemoryNetwork();
  const bus = network.connect();
  let nowMs = 1_000;
  const context = {
    ...createTestContext('frontend', bus),
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs },
  };
  const { subjects, id, clock, rng } = context;
  const none = (): number => 0;
  const metrics = createFrontendMetrics(context.registry, none, none);
  const life = new LifePublisher(bus, subjects, id, metrics);
  const sender = new WorkSender(bus, new Returns(bus, clock), subjects, id, metrics);
  const workers = new WorkerWatch({ bus, clock, host: sender });
  const streams = new Streams({
    bus,
    subjects,
    frontendId: id,
    clock,
    rng,
    metrics,
    host: {
      heard: () => {},
      batchesLost: () => {},
      tokensLost: () => assert.fail('tokens lost'),
      cancelStrays: () => assert.fail('strays'),
    },
  });
  const bookings = new Bookings(life, new DecisionHoldings(), () => false);
  const splits = new SplitRunner({ context, metrics, bookings, sender, streams, workers });
  const worker = new ScriptedWorker('prefill-1', network.connect(), (own, { streamId }) =>
    own.stage(streamId),
  );
  try {
    for (const onFailure of ['prefill-locally', 'fail'] as const) {
      const candidate = scriptedCandidate();
      const placement: Placement = {
        streamId: 0,
        decisionId: 'd',
        routerId: 'r',
        workerId: 'decode-1',
        placedAtMs: nowMs,
        prefill: undefined,
      };
      candidate.placement = placement;
      const place = {
        decisionId: 'd.p',
        workerId: worker.id,
        expectedCachedTokens: 0,
        onFailure,
      };
      assert.equal(await splits.prefill(candidate, placement, place), undefined);
      const leg = placement.prefill!;
      nowMs += limit('stagedKvMs') - limit('routeTimeoutMs') + 1;
      assert.equal(splits.keep(placement), undefined, 'to find another worker may take longer');
      nowMs -= 1;
      assert.equal(splits.keep(placement), leg);
      nowMs -= limit('stagedKvMs') - limit('routeTimeoutMs');
      nowMs += limit('stagedKvMs') - 1;
      assert.equal(splits.lastFields(candidate, leg)?.kvSource?.validForMs, 1);
      assert.ok(candidate.isFetched);
      candidate.restart();
      nowMs += 1;
      if (onFailure === 'fail') {
        assert.throws(() => splits.lastFields(candidate, leg), { code: 'FRONTEND_PREFILL_FAILED' });
        continue;
      }
      assert.equal(splits.lastFields(candidate, leg), undefined);
      assert.equal(candidate.isFetched, false);
      await until(() => worker.staged.size === 0);
    }
    const text = await context.registry.metrics();
    assert.match(text, /split_fallbacks_total\{reason="FRONTEND_KV_EXPIRED"[^}]*\} 1/);
    assert.match(text, /split_requests_total\{outcome="local"[^}]*\} 1/);
    assert.match(text, /split_requests_total\{outcome="failed"[^}]*\} 1/);
  } finally {
    life.stop();
    streams.stop();
    workers.stop();
    await worker.kill();
    await bus.close();
  }
});
