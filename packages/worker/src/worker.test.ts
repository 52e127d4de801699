import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bus, MemoryNetwork } from '@busbar/bus';
import { createMockEngine, type Engine } from '@busbar/engine';
import { type EngineProfile, PROFILES } from '@busbar/mocker';
import {
  decodeKvBatch,
  decodeKvSyncReply,
  decodeStreamPositions,
  decodeTokenBatch,
  decodeWorkAck,
  encodeCancel,
  encodeKvSyncRequest,
  encodeStreamsQuestion,
  encodeWork,
  type KvBatch,
  limit,
  type TokenBatch,
  type WorkAck,
  type WorkHeader,
} from '@busbar/protocol';
import { systemClock } from '@busbar/service';
import { createTestContext, type TestContext, until } from '@busbar/service/testing';
import { createWorkerMetrics } from './metrics.ts';
import { Worker } from './worker.ts';

const twoMs: EngineProfile = { ...PROFILES['instant']!, name: 'two-ms', stepMs: () => 2 };

interface Bench {
  bus: Bus;
  context: TestContext;
  worker: Worker;
  engine: Engine;
  batches: (TokenBatch & { frontendId: string })[];
  kv: KvBatch[];
  send: (header?: Partial<WorkHeader>, tokens?: Uint32Array) => Promise<WorkAck>;
}

/** Steps that last beyond any test: nothing ends by itself. */
const endless: EngineProfile = { ...twoMs, name: 'endless', stepMs: () => 600_000 };

async function withWorker(
  use: (bench: Bench) => Promise<void>,
  profile: EngineProfile = twoMs,
): Promise<void> {
  const network = new MemoryNetwork();
  const context = createTestContext('decode', network.connect(), 'w1');
  const bus = network.connect();
  const engine = createMockEngine({
    model: 'm',
    role: 'decode',
    emitKvEvents: true,
    clock: systemClock,
    mocker: {
      blockSize: 16,
      kvBlocks: 256,
      contextTokens: 2048,
      profile,
      speed: 1,
      script: [Uint32Array.of(5, 6, 7)],
      eosTokenIds: [2],
    },
  });
  const metrics = createWorkerMetrics(context.registry, 'decode', () => engine.load());
  const worker = new Worker(context, engine, metrics, (error) => assert.fail(error));
  worker.open(await engine.start(worker, new AbortController().signal), {
    onDrain: () => {},
    onInfo: () => {},
  });
  const { subjects } = context;
  context.bus.subscribe(subjects.work('w1'), (message) => worker.onWork(message));
  context.bus.subscribe(subjects.cancel('w1'), (message) => worker.onCancel(message));
  context.bus.subscribe(subjects.kvSync('w1'), (message) => worker.onKvSync(message));
  const batches: Bench['batches'] = [];
  for (const frontendId of ['f1', 'f2']) {
    bus.subscribe(subjects.tokensTo(frontendId), (message) =>
      batches.push({ ...decodeTokenBatch(message.data), frontendId }),
    );
  }
  const kv: KvBatch[] = [];
  bus.subscribe(subjects.kv('w1'), (message) => kv.push(decodeKvBatch(message.data)));
  const send: Bench['send'] = async (header = {}, tokens = prompt(100)) => {
    const whole: WorkHeader = {
      streamId: 1,
      frontendId: 'f1',
      decisionId: 'd',
      model: 'm',
      promptTokens: tokens.length,
      maxTokens: 8,
      ignoreEos: true,
      sampling: {},
      ...header,
    };
    const answer = await bus.request(subjects.work('w1'), encodeWork(whole, tokens), {
      timeoutMs: 2_000,
    });
    return decodeWorkAck(answer.data);
  };
  try {
    await use({ bus, context, worker, engine, batches, kv, send });
  } finally {
    await worker.stop();
    await bus.close();
    await context.bus.close();
  }
}

function prompt(length: number, salt = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, at) => 10 + ((at * 7 + salt * 131) % 50));
}

const code = (ack: WorkAck): string => (ack.kind === 'refused' ? ack.code : ack.kind);

test('one message a step and frontend, sequence numbers and positions without a hole', () =>
  withWorker(async ({ worker, batches, send }) => {
    const acks = await Promise.all([
      send({ streamId: 1 }),
      send({ streamId: 2 }),
      send({ streamId: 1, frontendId: 'f2' }),
      send({ streamId: 2, frontendId: 'f2', maxTokens: 3 }),
    ]);
    assert.deepEqual(acks.map(code), ['accepted', 'accepted', 'accepted', 'accepted']);
    await until('all ends', () => worker.running === 0);
    await until('the last message', () =>
      ['f1', 'f2'].every((id) =>
        batches.some((b) => b.frontendId === id && b.deltas.some((d) => d.finish === 'length')),
      ),
    );
    for (const [frontendId, expected] of [
      ['f1', { 1: 8, 2: 8 }],
      ['f2', { 1: 8, 2: 3 }],
    ] as const) {
      const own = batches.filter((batch) => batch.frontendId === frontendId);
      assert.deepEqual(
        own.map((batch) => batch.sequence),
        own.map((_, at) => at + 1),
      );
      assert.ok(own.length <= 10, `${own.length} messages for at most 8 steps and a late start`);
      const positions: Record<number, number> = {};
      for (const { deltas } of own) {
        for (const delta of deltas) {
          assert.equal(delta.position, positions[delta.streamId] ?? 0);
          positions[delta.streamId] = delta.position + delta.tokens.length;
        }
      }
      assert.deepEqual(positions, expected);
    }
  }));

test('what cannot be taken is refused with a code that says whether another worker may', () =>
  withWorker(async ({ bus, context, worker, send }) => {
    const other = await bus.request(context.subjects.work('w1'), Uint8Array.of(1, 2, 3), {
      timeoutMs: 1_000,
    });
    assert.equal(code(decodeWorkAck(other.data)), 'WORKER_BAD_REQUEST');
    for (const [header, tokens, expected] of [
      [{ model: 'other' }, prompt(10), 'WORKER_BAD_REQUEST'],
      [{ promptTokens: 11 }, prompt(10), 'WORKER_BAD_REQUEST'],
      [{ frontendId: 'a.b>*' }, prompt(10), 'WORKER_BAD_REQUEST'],
      [{}, prompt(2048), 'WORKER_TOO_LONG'],
      [{ promptTokens: 500_000, parts: 3, part: 0 }, prompt(10), 'WORKER_TOO_LONG'],
    ] as const) {
      const ack = await send(header, tokens);
      assert.equal(code(ack), expected, JSON.stringify(header));
      assert.equal(ack.kind === 'refused' && ack.retryable, false);
    }
    const foreign = await send({ lora: 'none' });
    assert.equal(code(foreign), 'WORKER_NO_MODEL');
    assert.ok(foreign.kind === 'refused' && foreign.retryable, 'another may have it');
    assert.equal(code(await send({ maxTokens: 1000 })), 'accepted');
    assert.equal(code(await send()), 'WORKER_BAD_REQUEST', 'the same stream id twice');
    for (let streamId = 2; streamId <= limit('workerInFlight'); streamId++) {
      if (code(await send({ streamId, maxTokens: 1000 }, prompt(4))) !== 'accepted') assert.fail();
    }
    const full = await send({ streamId: 9_999 });
    assert.deepEqual(
      [code(full), full.kind === 'refused' && full.retryable],
      ['WORKER_FULL', true],
    );
    const drained = worker.drain(AbortSignal.timeout(1));
    const draining = await send({ streamId: 9_999 });
    assert.equal(code(draining), 'WORKER_DRAINING');
    await drained;
  }, endless));

test('a request that the engine throws at is refused, and nothing of it stays', (t) =>
  withWorker(async ({ worker, engine, send }) => {
    const submit = t.mock.method(engine, 'submit', () => {
      throw new Error('no room for a fault');
    });
    const refused = await send();
    assert.equal(refused.kind === 'refused' && refused.code, 'WORKER_FAULT');
    assert.equal(worker.running, 0);
    submit.mock.restore();
    assert.equal((await send()).kind, 'accepted', 'the same stream, placed again');
  }));

test('cancel, a frontend that left and a stop at the drain limit end their streams', () =>
  withWorker(async ({ bus, context, worker, engine, batches, send }) => {
    const endOf = (frontendId: string, streamId: number) =>
      batches
        .filter((batch) => batch.frontendId === frontendId)
        .flatMap((batch) => batch.deltas)
        .find((delta) => delta.streamId === streamId && delta.finish !== 'none');
    for (const streamId of [1, 2, 3]) await send({ streamId, maxTokens: 1000 });
    await send({ streamId: 1, frontendId: 'f2', maxTokens: 1000 });
    const asked = async (): Promise<[number, number][]> => {
      const question = encodeStreamsQuestion('f1');
      const subject = context.subjects.cancel('w1');
      const answer = await bus.request(subject, question, { timeoutMs: 2_000 });
      return [...decodeStreamPositions(answer.data)];
    };
    const sent = (id: number): number =>
      batches
        .filter(({ frontendId }) => frontendId === 'f1')
        .flatMap(({ deltas }) => deltas)
        .filter(({ streamId }) => streamId === id)
        .reduce((sum, { tokens }) => sum + tokens.length, 0);
    await until('a token', () => sent(1) > 0);
    const positions = await asked();
    assert.deepEqual(
      positions.map(([streamId]) => streamId),
      [1, 2, 3],
    );
    // What was sent before the answer came before it.
    for (const [streamId, position] of positions) assert.ok(position <= sent(streamId));
    assert.ok(positions.some(([, position]) => position > 0));
    bus.publish(context.subjects.cancel('w1'), encodeCancel('f1', [2, 77]));
    await until('the end of 2', () => endOf('f1', 2) !== undefined);
    assert.equal(endOf('f1', 2)?.finish, 'cancelled');
    assert.equal(worker.running, 3);
    assert.deepEqual(
      (await asked()).map(([streamId]) => streamId),
      [1, 3],
    );
    worker.onFrontendGone('f2');
    await until('the end of f2', () => worker.running === 2);
    const drained = worker.drain(AbortSignal.timeout(30));
    await drained;
    assert.equal(worker.running, 2);
    await worker.stop();
    await until('the last batch', () => endOf('f1', 1) !== undefined);
    for (const streamId of [1, 3]) {
      const end = endOf('f1', streamId);
      assert.equal(end?.finish, 'error');
      assert.deepEqual([end?.error?.code, end?.error?.retryable], ['WORKER_DRAINING', true]);
    }
    assert.equal(engine.load().activeBlocks, 0);
  }));

test('a drain resolves when the last request has ended', () =>
  withWorker(async ({ worker, send }) => {
    await send({ maxTokens: 20 });
    const beganMs = performance.now();
    await worker.drain(AbortSignal.timeout(10_000));
    assert.equal(worker.running, 0);
    assert.ok(performance.now() - beganMs < 5_000);
  }));

test('KV batches are numbered, and a snapshot equals what they add up to', () =>
  withWorker(async ({ bus, context, worker, kv, send }) => {
    for (let streamId = 1; streamId <= 30; streamId++) {
      await send({ streamId }, prompt(200, streamId));
      await until('its end', () => worker.running === 0);
    }
    const reply = await bus.request(
      context.subjects.kvSync('w1'),
      encodeKvSyncRequest({ part: 0 }),
      { timeoutMs: 1_000 },
    );
    const snapshot = decodeKvSyncReply(reply.data);
    assert.equal(snapshot.reply.epoch, context.epoch);
    await until('all batches', () => kv.at(-1)?.sequence === snapshot.reply.sequence);
    assert.deepEqual(
      kv.map((batch) => batch.sequence),
      kv.map((_, at) => at + 1),
    );
    const blocks = new Set<string>();
    for (const { changes } of kv) {
      for (const change of changes) {
        assert.notEqual(change.kind, 'cleared');
        if (change.kind === 'cleared') continue;
        for (let at = 0; at < change.hashes.length; at += 2) {
          const name = `${change.hashes[at + 1]}:${change.hashes[at]}`;
          if (change.kind === 'stored') blocks.add(name);
          else blocks.delete(name);
        }
      }
    }
    const inSnapshot = new Set<string>();
    for (let at = 0; at < snapshot.hashes.length; at += 2) {
      inSnapshot.add(`${snapshot.hashes[at + 1]}:${snapshot.hashes[at]}`);
    }
    assert.ok(inSnapshot.size > 100);
    assert.deepEqual(inSnapshot, blocks);
    worker.onCacheReset();
    await until('the reset', () => kv.at(-1)?.changes[0]?.kind === 'cleared');
  }));
