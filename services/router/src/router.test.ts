import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '@busbar/base';
import { hashBlocks, hashSeed } from '@busbar/blocks';
import { BusError } from '@busbar/bus';
import {
  decodeRouteReply,
  encodeHeldDecisions,
  encodeInstance,
  encodeRouteRequest,
  instanceKey,
} from '@busbar/protocol';
import { until } from '@busbar/service/testing';
import { instanceOf, prompt, withBench } from './router.testing.ts';

test('a new router knows the blocks of running workers before it answers its first request', () =>
  withBench(async ({ worker, router, place, bus, context }) => {
    const [w1, w2] = [worker('w1'), worker('w2')];
    w2.snapshot = hashBlocks(prompt(160), 16, hashSeed());
    w2.sequence = 7;
    await w1.join();
    await w2.join();
    await assert.rejects(
      bus.request(context.subjects.route('m'), new Uint8Array(8), { timeoutMs: 100 }),
      (error: unknown) => error instanceof BusError && error.code === 'BUS_NO_RESPONDERS',
    );
    const { service } = await router();
    assert.ok(w1.syncs === 1 && w2.syncs === 1);
    const reply = await place(prompt(160));
    assert.equal(reply.kind === 'place' && reply.workerId, 'w2');
    assert.ok(reply.kind === 'place' && reply.expectedCachedTokens >= 144);
    assert.ok(service.checks().every((check) => check.ok && check.isDegraded !== true));
  }));

test('events, a gap, a late event of an earlier life and a returning name', () =>
  withBench(async ({ worker, router, place }) => {
    const w1 = worker('w1');
    await w1.join();
    const { service } = await router();
    const views = (): { indexedBlocks: number }[] => service.adminRoutes!['/workers']!() as never;
    const blocks = hashBlocks(prompt(320), 16, hashSeed());
    w1.kv({ kind: 'stored', hashes: blocks.slice(0, 20) });
    await until('ten blocks', () => views()[0]?.indexedBlocks === 10);
    w1.sequence++; // one batch is lost on the way
    w1.snapshot = blocks.slice(0, 30);
    w1.kv({ kind: 'stored', hashes: blocks.slice(20, 30) });
    await until('a snapshot', () => w1.syncs === 2 && views()[0]?.indexedBlocks === 15);
    await w1.leave();
    await until('its end', () => views().length === 0);
    w1.kv({ kind: 'stored', hashes: blocks });
    w1.epoch = 2;
    w1.sequence = 0;
    w1.snapshot = new Uint32Array(0);
    await w1.join();
    // What comes before the snapshot is taken would be part of it, which a fake's is not.
    await until('its return', () => views().length === 1 && w1.syncs === 3);
    w1.kv({ kind: 'stored', hashes: blocks.slice(0, 2) });
    await until('one block', () => views()[0]?.indexedBlocks === 1);
    const reply = await place(prompt(320));
    assert.ok(reply.kind === 'place' && reply.expectedCachedTokens <= 16);
  }));

test('adapters that a running worker loads and unloads are known at once', () =>
  withBench(async ({ worker, router, bus, context }) => {
    const w1 = worker('w1');
    await w1.join();
    await router();
    const ask = async (): Promise<string> => {
      const request = {
        model: 'm',
        frontendId: 'f1',
        promptTokens: 32,
        maxTokens: 8,
        deadlineMs: 500,
        lora: 'sql',
      };
      const data = encodeRouteRequest(request, hashBlocks(prompt(32), 16, hashSeed()));
      const answer = await bus.request(context.subjects.route('m'), data, { timeoutMs: 3_000 });
      return decodeRouteReply(answer.data).kind;
    };
    assert.equal(await ask(), 'reject');
    await w1.join({ loras: ['sql'] });
    await until('the adapter', async () => (await ask()) === 'place');
    await w1.join({ loras: [] });
    await until('its end', async () => (await ask()) === 'reject');
    assert.equal(w1.syncs, 1);
  }));

test('missing KV events degrade readiness, are counted and said again and again', () =>
  withBench(async ({ worker, router, place, life }) => {
    const w1 = worker('w1');
    await w1.join();
    const { service, context: own } = await router({ BUSBAR_EVENT_GRACE_MS: '200' });
    const reply = await place(prompt(160));
    assert.ok(reply.kind === 'place');
    const { decisionId, workerId } = reply;
    life({ kind: 'firstToken', decisionId, workerId, cachedTokens: 0, ttftMs: 20 });
    const demotions = () => own.events.filter((event) => event.kind === 'router.demoted');
    await until('the demotion', () => demotions().length === 1);
    const { data } = demotions()[0]!;
    assert.equal(data['workerId'], 'w1');
    assert.equal(data['to'], 'approximate');
    assert.match(String(data['reason']), /no KV event/);
    const check = service.checks().find((one) => one.name === 'worker w1');
    assert.equal(check?.isDegraded, true);
    assert.match(check?.detail ?? '', /approximate: no KV event/);
    const metrics = await own.registry.metrics();
    assert.match(metrics, /demotions_total\{to="approximate",cause="no_events",[^}]*\} 1/);
    assert.match(metrics, /truth_state\{worker="w1",[^}]*\} 1/);
    await until('the event again', () => demotions().length === 2, 4_000);
  }));

test('a router that stood still reads what came meanwhile before it misses KV events', () =>
  withBench(async ({ worker, router, place, life }) => {
    const w1 = worker('w1');
    await w1.join();
    const { context: own } = await router({ BUSBAR_EVENT_GRACE_MS: '300' });
    const reply = await place(prompt(160));
    assert.ok(reply.kind === 'place');
    const { decisionId, workerId } = reply;
    life({ kind: 'firstToken', decisionId, workerId, cachedTokens: 0, ttftMs: 20 });
    await sleep(50);
    w1.stop();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 800);
    setTimeout(() => w1.kv({ kind: 'stored', hashes: hashBlocks(prompt(160), 16, hashSeed()) }), 1);
    await sleep(300);
    assert.ok(own.events.every(({ kind }) => kind !== 'router.demoted'));
  }));

test('a worker that cannot give its block set is served by guesses; a slow one holds the start up only so long', () =>
  withBench(async ({ bus, bucket, context, router, place }) => {
    const instance = instanceOf('decode', 'w9', 3);
    await bucket.put(instanceKey('decode', 'w9'), encodeInstance(instance));
    bus.subscribe(context.subjects.kvSync('w9'), () => {}); // never answers
    const beganMs = performance.now();
    const { service } = await router();
    const tookMs = performance.now() - beganMs;
    assert.ok(tookMs > 2_500 && tookMs < 4_000, `${tookMs} ms`);
    assert.ok(service.checks().some((check) => check.name === 'worker w9' && check.isDegraded));
    assert.equal((await place(prompt(32))).kind, 'reject');
  }));

test('a frontend that leaves gives back its bookings; other routers heard of them', () =>
  withBench(async ({ worker, router, bucket, place, life }) => {
    const w1 = worker('w1');
    await w1.join();
    const frontend = encodeInstance(instanceOf('frontend', 'f1', 1));
    await bucket.put(instanceKey('frontend', 'f1'), frontend);
    const routers = [await router(), await router({}, 'r2')];
    const tokens = prompt(160);
    const hashes = hashBlocks(tokens, 16, hashSeed());
    const reply = await place(tokens);
    assert.ok(reply.kind === 'place');
    const { decisionId, workerId, routerId, expectedCachedTokens } = reply;
    life(
      {
        kind: 'booked',
        decisionId,
        routerId,
        workerId,
        promptTokens: 160,
        maxTokens: 8,
        expectedCachedTokens,
        blocks: hashes.length / 2,
      },
      hashes,
    );
    const booked = () =>
      routers.map(
        ({ service }) =>
          (service.adminRoutes!['/workers']!() as { bookedRequests: number }[])[0]?.bookedRequests,
      );
    await until('one booking in each', () => booked().every((count) => count === 1));
    const decider = routers.find(({ context }) => context.id === routerId)!;
    assert.match(await decider.context.registry.metrics(), /convergence_seconds_count\{[^}]*\} 1/);
    assert.equal((decider.service.adminRoutes!['/decisions']!() as unknown[]).length, 1);
    await bucket.delete(instanceKey('frontend', 'f1'));
    await until('no booking', () => booked().every((count) => count === 0));
  }));

test('bookings that their frontend does not hold are released by every router, and said', () =>
  withBench(async ({ worker, router, bus, context, place, life }) => {
    await worker('w1').join();
    const routers = [await router(), await router({}, 'r2')];
    const kept = await place(prompt(160));
    const lost = await place(prompt(160, 1), 'f1', 2);
    assert.ok(kept.kind === 'place' && lost.kind === 'place');
    for (const { decisionId, routerId, workerId, expectedCachedTokens } of [kept, lost]) {
      const ask = decisionId === kept.decisionId ? 1 : 2;
      const prices = { promptTokens: 160, maxTokens: 8, expectedCachedTokens, blocks: 0 };
      life({ kind: 'booked', decisionId, routerId, workerId, ...prices, ask });
    }
    const booked = () =>
      routers.map(
        ({ service }) =>
          (service.adminRoutes!['/workers']!() as { bookedRequests: number }[])[0]?.bookedRequests,
      );
    await until('two bookings in each', () => booked().every((count) => count === 2));
    const list = { from: 0, before: 3, decisionIds: [kept.decisionId] };
    bus.publish(context.subjects.held('f1'), encodeHeldDecisions(list));
    await until('one booking in each', () => booked().every((count) => count === 1));
    for (const { context: own } of routers) {
      assert.match(await own.registry.metrics(), /unheld_bookings_total\{[^}]*\} 1/);
    }
  }));

test('a bad frame is answered, a bad lease passed over, both counted; a draining router leaves the queue group first', () =>
  withBench(async ({ worker, router, bus, context, place }) => {
    await worker('w1').join();
    const junk = Uint8Array.of(1, 2, 3);
    await (await bus.bucket(context.buckets.instances)).put(instanceKey('decode', 'w0'), junk);
    await (await bus.bucket(context.buckets.links)).put('p1.w1', junk);
    const { service, context: own } = await router();
    const answer = await bus.request(context.subjects.route('m'), Uint8Array.of(9, 9, 9), {
      timeoutMs: 1_000,
    });
    const reply = decodeRouteReply(answer.data);
    assert.equal(reply.kind === 'reject' && reply.code, 'ROUTER_BAD_REQUEST');
    for (const subject of [
      context.subjects.kv('w1'),
      context.subjects.load('w1'),
      context.subjects.life('m'),
      context.subjects.held('f1'),
    ]) {
      bus.publish(subject, junk);
    }
    assert.equal((await place(prompt(32))).kind, 'place');
    const metrics = await own.registry.metrics();
    for (const subject of ['route', 'kv', 'load', 'life', 'held', 'instances', 'links']) {
      assert.match(metrics, new RegExp(`bad_frames_total\\{subject="${subject}",[^}]*\\} 1`));
    }
    await service.drain(AbortSignal.timeout(1_000));
    await assert.rejects(place(prompt(32)), (error: unknown) => error instanceof BusError);
  }));

test('an outage of the bus is no silence of a worker', () =>
  withBench(async ({ network, worker, router }) => {
    const workers = ['w1', 'w2'].map((id) => worker(id));
    for (const each of workers) await each.join();
    const { service, context: own } = await router();
    const available = (): string[] =>
      (service.adminRoutes!['/workers']!() as { workerId: string; isAvailable: boolean }[])
        .filter(({ isAvailable }) => isAvailable)
        .map(({ workerId }) => workerId);
    for (const each of workers) each.stop();
    network.disconnect();
    await until('nobody to be heard', () => available().length === 0);
    network.reconnect();
    assert.deepEqual(available(), ['w1', 'w2']);
    // Silence is looked for more often than this.
    await sleep(300);
    assert.deepEqual(own.events, []);
    await until('their silence since', () => own.events.length === 2);
  }));

test('a router that stood still takes no worker for silent, and places as before', () =>
  withBench(async ({ worker, router, place }) => {
    let stoodMs = 0;
    const clock: Clock = {
      monotonicMs: () => performance.now() + stoodMs,
      wallMs: () => Date.now(),
    };
    const workers = ['w1', 'w2'].map((id) => worker(id));
    for (const each of workers) {
      each.snapshot = each.id === 'w2' ? hashBlocks(prompt(64), 16, hashSeed()) : each.snapshot;
      await each.join();
    }
    const { context: own } = await router({}, 'r1', clock);
    const [w1] = workers;
    stoodMs = 60_000;
    // Whoever is heard first must not get everything.
    w1!.beat();
    const reply = await place(prompt(64));
    assert.equal(reply.kind === 'place' && reply.workerId, 'w2');
    await sleep(300);
    assert.deepEqual(own.events, []);
  }));

test('the only worker that falls silent is not called available', () =>
  withBench(async ({ worker, router }) => {
    const w1 = worker('w1');
    await w1.join();
    const { service } = await router();
    const detail = (): string | undefined =>
      service.checks().find(({ name }) => name === 'worker w1')?.detail;
    assert.doesNotMatch(detail()!, /silent/);
    w1.stop();
    await until('the silence', () => detail()?.includes('silent') === true);
  }));

test('a worker that falls silent, and speaks again, is told of once each', () =>
  withBench(async ({ worker, router }) => {
    const w1 = worker('w1');
    await w1.join();
    const { context: own } = await router();
    const kinds = () => own.events.map((event) => `${event.kind} ${event.subject}`);
    w1.stop();
    await until('the silence', () => kinds().length === 1);
    w1.beat();
    await until('the return', () => kinds().length === 2);
    assert.deepEqual(kinds(), ['worker.degraded w1', 'worker.recovered w1']);
  }));
