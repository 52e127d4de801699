import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { hashBlocks, hashSeed } from '@busbar/blocks';
import { type Bucket, type Bus, BusError, MemoryNetwork } from '@busbar/bus';
import {
  decodeRouteReply,
  encodeInstance,
  encodeKvBatch,
  encodeKvSyncReply,
  encodeLifeBatch,
  encodeRouteRequest,
  encodeWorkerLoad,
  type Instance,
  instanceKey,
  type KvChange,
  type LifeEvent,
  PROTOCOL_VERSION,
  type RouteReply,
  type WorkerInfo,
  type WorkerLoad,
} from '@busbar/protocol';
import { loadConfig, type Service } from '@busbar/service';
import { createTestContext, type TestContext, until } from '@busbar/service/testing';
import { routerConfigSchema } from './config.ts';
import { createRouter } from './router.ts';

const INFO: WorkerInfo = {
  model: 'm',
  engine: 'fake',
  engineVersion: '1',
  blockSize: 16,
  kvBlocks: 1000,
  role: 'decode',
  dpRanks: 1,
  contextTokens: 4096,
  maxRunning: 64,
  kvEvents: true,
  prefillTokensPerMs: 20,
  decodeStepMs: 10,
};

function instanceOf(role: 'decode' | 'frontend', id: string, epoch: number): Instance {
  return {
    protocol: PROTOCOL_VERSION,
    role,
    id,
    epoch,
    pid: 1,
    host: 'h',
    startedAt: '',
    state: 'ready',
    ...(role === 'decode' ? { worker: INFO } : {}),
  };
}

/** A worker that says what a test wants it to say. */
class FakeWorker {
  readonly id: string;
  epoch = 1;
  sequence = 0;
  stored = 0;
  snapshot: Uint32Array = new Uint32Array(0);
  /** Asked for its block set so often. */
  syncs = 0;
  readonly #bus: Bus;
  readonly #context: TestContext;
  readonly #bucket: Bucket;
  #timer: NodeJS.Timeout | undefined;

  constructor(bus: Bus, context: TestContext, bucket: Bucket, id: string) {
    this.#bus = bus;
    this.#context = context;
    this.#bucket = bucket;
    this.id = id;
    bus.subscribe(context.subjects.kvSync(id), (message) => {
      this.syncs++;
      const reply = {
        snapshotId: 1,
        part: 0,
        parts: 1,
        epoch: this.epoch,
        sequence: this.sequence,
        dpRank: 0,
        tier: 'device',
      } as const;
      message.respond(encodeKvSyncReply(reply, this.snapshot));
    });
  }

  async join(): Promise<void> {
    const instance = instanceOf('decode', this.id, this.epoch);
    await this.#bucket.put(instanceKey('decode', this.id), encodeInstance(instance));
    this.#timer ??= setInterval(() => this.beat(), 100);
    this.beat();
  }

  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#bucket.delete(instanceKey('decode', this.id));
  }

  beat(more: Partial<WorkerLoad> = {}): void {
    const load: WorkerLoad = {
      epoch: this.epoch,
      state: 'ready',
      running: 0,
      waiting: 0,
      waitingPrefillTokens: 0,
      freeBlocks: 500,
      activeBlocks: 0,
      kvBlocks: 1000,
      decodeStepMs: 10,
      prefillTokensPerMs: 20,
      kvSequence: this.sequence,
      storedBlocksTotal: this.stored,
      ...more,
    };
    this.#bus.publish(this.#context.subjects.load(this.id), encodeWorkerLoad(load));
  }

  kv(...changes: KvChange[]): void {
    this.sequence++;
    const { epoch, sequence } = this;
    const batch = { epoch, sequence, dpRank: 0, tier: 'device', changes } as const;
    this.#bus.publish(this.#context.subjects.kv(this.id), encodeKvBatch(batch));
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

interface Stage {
  bus: Bus;
  context: TestContext;
  bucket: Bucket;
  worker: (id: string) => FakeWorker;
  router: (
    env?: Record<string, string>,
    id?: string,
  ) => Promise<{ service: Service; context: TestContext }>;
  place: (tokens: Uint32Array, frontendId?: string) => Promise<RouteReply>;
  life: (event: LifeEvent, hashes?: Uint32Array) => void;
}

async function withStage(use: (stage: Stage) => Promise<void>): Promise<void> {
  const network = new MemoryNetwork();
  const bus = network.connect();
  const context = createTestContext('frontend', bus, 'f1');
  const bucket = await bus.bucket(context.buckets.instances);
  const running: Service[] = [];
  const workers: FakeWorker[] = [];
  try {
    await use({
      bus,
      context,
      bucket,
      worker: (id) => {
        const worker = new FakeWorker(bus, context, bucket, id);
        workers.push(worker);
        return worker;
      },
      router: async (env = {}, id = 'r1') => {
        const own = createTestContext('router', network.connect(), id);
        const service = await createRouter(own, loadConfig(routerConfigSchema, env).config);
        running.push(service);
        return { service, context: own };
      },
      place: async (tokens, frontendId = 'f1') => {
        const request = {
          model: 'm',
          frontendId,
          promptTokens: tokens.length,
          maxTokens: 8,
          deadlineMs: 2_000,
        };
        const data = encodeRouteRequest(request, hashBlocks(tokens, 16, hashSeed()));
        const answer = await bus.request(context.subjects.route('m'), data, { timeoutMs: 3_000 });
        return decodeRouteReply(answer.data);
      },
      life: (event, hashes = new Uint32Array(0)) =>
        bus.publish(
          context.subjects.life('m'),
          encodeLifeBatch({ frontendId: 'f1', events: [event], hashes: [hashes] }),
        ),
    });
  } finally {
    for (const worker of workers) worker.stop();
    for (const service of running) await service.stop();
    await bus.close();
  }
}

function prompt(length: number, salt = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, at) => 10 + ((at * 7 + salt * 131) % 997));
}

test('a new router knows the blocks of running workers before it answers its first request', () =>
  withStage(async ({ worker, router, place, bus, context }) => {
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
  withStage(async ({ worker, router, place }) => {
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
    await until('its return', () => views().length === 1);
    w1.kv({ kind: 'stored', hashes: blocks.slice(0, 2) });
    await until('one block', () => views()[0]?.indexedBlocks === 1);
    const reply = await place(prompt(320));
    assert.ok(reply.kind === 'place' && reply.expectedCachedTokens <= 16);
  }));

test('missing KV events degrade readiness, are counted and said again and again', () =>
  withStage(async ({ worker, router, place, life }) => {
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
  withStage(async ({ worker, router, place, life }) => {
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
  withStage(async ({ bus, bucket, context, router, place }) => {
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
  withStage(async ({ worker, router, bucket, place, life }) => {
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

test('a bad frame is answered; a draining router leaves the queue group first', () =>
  withStage(async ({ worker, router, bus, context, place }) => {
    await worker('w1').join();
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
    ]) {
      bus.publish(subject, Uint8Array.of(1, 2, 3));
    }
    assert.equal((await place(prompt(32))).kind, 'place');
    const metrics = await own.registry.metrics();
    for (const subject of ['route', 'kv', 'load', 'life']) {
      assert.match(metrics, new RegExp(`bad_frames_total\\{subject="${subject}",[^}]*\\} 1`));
    }
    await service.drain(AbortSignal.timeout(1_000));
    await assert.rejects(place(prompt(32)), (error: unknown) => error instanceof BusError);
  }));

test('a worker that falls silent, and speaks again, is told of once each', () =>
  withStage(async ({ worker, router }) => {
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
