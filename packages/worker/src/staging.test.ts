import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bus, MemoryNetwork } from '@busbar/bus';
import type { Engine, EngineRequest, EngineSink } from '@busbar/engine';
import {
  decodeTokenBatch,
  decodeWorkAck,
  encodeCancel,
  encodeWork,
  type KvSource,
  limit,
  type StreamDelta,
  type TransferParams,
  type WorkAck,
  type WorkerInfo,
  type WorkHeader,
} from '@busbar/protocol';
import { createTestContext, type TestContext, until } from '@busbar/service/testing';
import { infoOf, nixlTransfer } from './facts.testing.ts';
import type { FetchObserver } from './fetch-meter.ts';
import { createWorkerMetrics } from './metrics.ts';
import { Worker } from './worker.ts';

const TRANSFER: TransferParams = {
  protocol: 'tcp',
  params: { transferId: 't1', endpoint: '127.0.0.1:1', blocks: 2, blockBytes: 16 },
};
const SOURCE: KvSource = { prefillWorkerId: 'p1', transfer: TRANSFER, validForMs: 5_000 };
const NONE = new Uint32Array(0);

/** Does nothing of itself: the test says what happens. Staged keys that are aborted end as released. */
class ScriptedEngine implements Engine {
  readonly requests: EngineRequest[] = [];
  readonly aborted: number[] = [];
  readonly staged = new Set<number>();
  sink: EngineSink | undefined;

  start(sink: EngineSink): Promise<WorkerInfo> {
    this.sink = sink;
    return Promise.reject(new Error('the test makes the info'));
  }

  submit(request: EngineRequest): { kind: 'accepted' } {
    this.requests.push(request);
    return { kind: 'accepted' };
  }

  abort(key: number): void {
    this.aborted.push(key);
    if (this.staged.delete(key)) this.sink?.onStagedEnd(key, 'released');
  }

  stagedFetched(key: number): void {
    if (this.staged.delete(key)) this.sink?.onStagedEnd(key, 'fetched');
  }

  /** The prefill of a request is done. */
  stage(key: number, transfer: TransferParams | undefined): void {
    if (transfer !== undefined) this.staged.add(key);
    const delta = { key, tokens: Uint32Array.of(7), finish: 'length' as const, cachedTokens: 3 };
    this.sink?.onStep({ deltas: [transfer === undefined ? delta : { ...delta, transfer }] });
  }

  end(key: number): void {
    this.sink?.onStep({ deltas: [{ key, tokens: NONE, finish: 'cancelled' }] });
  }

  load(): ReturnType<Engine['load']> {
    const stagedBlocks = this.staged.size * 2;
    return {
      running: 0,
      waiting: 0,
      waitingPrefillTokens: 0,
      freeBlocks: 0,
      activeBlocks: stagedBlocks,
      decodeStepMs: 0,
      prefillTokensPerMs: 0,
      storedBlocksTotal: 0,
      stagedBlocks,
    };
  }

  blocks(): [] {
    return [];
  }
  resetCache(): Promise<void> {
    return Promise.resolve();
  }
  stop(): Promise<void> {
    return Promise.resolve();
  }
}

interface Bench {
  bus: Bus;
  context: TestContext;
  worker: Worker;
  engine: ScriptedEngine;
  deltas: StreamDelta[];
  send: (header?: Partial<WorkHeader>) => Promise<WorkAck>;
}

function workerOf(role: WorkerInfo['role'], protocol: 'tcp' | 'nixl' | undefined): WorkerInfo {
  if (protocol === undefined) return infoOf(role);
  return infoOf(role, { transfer: { protocol, revision: {}, kvBytesPerToken: 1 } });
}

async function withWorker(
  info: WorkerInfo,
  use: (bench: Bench) => Promise<void>,
  fetches?: FetchObserver,
): Promise<void> {
  const network = new MemoryNetwork();
  const context = createTestContext(info.role, network.connect(), 'w1');
  const bus = network.connect();
  const engine = new ScriptedEngine();
  const metrics = createWorkerMetrics(context.registry, info.role, () => engine.load());
  const worker = new Worker(context, engine, metrics, (error) => assert.fail(error));
  engine.sink = worker;
  const listener = { onDrain: () => {}, onInfo: () => {} };
  worker.open(info, fetches === undefined ? listener : { ...listener, fetches });
  context.bus.subscribe(context.subjects.work('w1'), (message) => worker.onWork(message));
  context.bus.subscribe(context.subjects.cancel('w1'), (message) => worker.onCancel(message));
  const deltas: StreamDelta[] = [];
  bus.subscribe(context.subjects.tokensTo('f1'), ({ data }) =>
    deltas.push(...decodeTokenBatch(data).deltas),
  );
  const send: Bench['send'] = async (header = {}) => {
    const whole: WorkHeader = {
      streamId: 1,
      frontendId: 'f1',
      decisionId: 'd',
      model: 'm',
      promptTokens: 4,
      maxTokens: 200,
      minTokens: 50,
      sampling: {},
      ...header,
    };
    const data = encodeWork(whole, Uint32Array.of(1, 2, 3, 4));
    const answer = await bus.request(context.subjects.work('w1'), data, { timeoutMs: 2_000 });
    return decodeWorkAck(answer.data);
  };
  try {
    await use({ bus, context, worker, engine, deltas, send });
  } finally {
    await bus.close();
    await context.bus.close();
  }
}

const codeOf = (ack: WorkAck): string =>
  ack.kind === 'refused' ? `${ack.code} ${ack.retryable}` : ack.kind;
const metric = async (context: TestContext, name: string): Promise<string> =>
  new RegExp(`^busbar_\\w+_${name}.*$`, 'm').exec(await context.registry.metrics())?.[0] ?? '';

test('a prefill leg makes one token, ends with the way to its KV, and is known until that is gone', () =>
  withWorker(workerOf('prefill', 'tcp'), async ({ context, worker, engine, deltas, send }) => {
    assert.equal(codeOf(await send({ stageKv: { transferId: 't1' } })), 'accepted');
    const request = engine.requests[0]!;
    assert.deepEqual([request.maxTokens, request.minTokens], [1, 0]);
    assert.deepEqual(request.stageKv, { transferId: 't1' });
    engine.stage(request.key, TRANSFER);
    await until('the end', () => deltas.length === 1);
    assert.deepEqual(deltas[0]?.transfer, TRANSFER);
    assert.equal(deltas[0]?.cachedTokens, 3);
    assert.deepEqual([worker.running, worker.staged], [0, 1]);
    assert.equal(worker.facts().load.stagedBlocks, 2);
    assert.match(await metric(context, 'staged_requests'), / 1$/);
    assert.match(codeOf(await send({ stageKv: { transferId: 't1' } })), /BAD_REQUEST/);
    engine.sink?.onStagedEnd(request.key, 'fetched');
    assert.equal(worker.staged, 0);
    assert.match(await metric(context, 'staged_ends_total'), /how="fetched".* 1$/);
    assert.match(await metric(context, 'staged_requests'), / 0$/);
  }));

test('cancel gives KV up before, at and after the end of the prefill leg; so does a frontend that leaves', () =>
  withWorker(workerOf('prefill', 'tcp'), async ({ bus, context, worker, engine, send }) => {
    for (const streamId of [1, 2, 3, 4])
      assert.equal(codeOf(await send({ streamId, stageKv: { transferId: 't' } })), 'accepted');
    const [first, second, third, fourth] = engine.requests.map((request) => request.key);
    const cancel = (id: number): void =>
      bus.publish(context.subjects.cancel('w1'), encodeCancel('f1', [id]));
    cancel(1);
    await until('the abort', () => engine.aborted.includes(first!));
    engine.end(first!);
    // The abort came too late for the engine: the leg ends well all the same, and its KV is given up at once.
    cancel(2);
    await until('the abort', () => engine.aborted.includes(second!));
    engine.stage(second!, TRANSFER);
    assert.equal(worker.staged, 0);
    engine.stage(third!, TRANSFER);
    assert.equal(worker.staged, 1);
    cancel(3);
    await until('the release', () => worker.staged === 0);
    engine.stage(fourth!, TRANSFER);
    assert.equal(worker.staged, 1);
    worker.onFrontendGone('f1');
    assert.deepEqual([worker.running, worker.staged, engine.staged.size], [0, 0, 0]);
  }));

test('a frontend tells that KV was fetched: it is counted off, and nothing that runs is stopped', () =>
  withWorker(workerOf('prefill', 'nixl'), async ({ bus, context, worker, engine, send }) => {
    for (const streamId of [1, 2])
      await send({ streamId, stageKv: { transferId: `t${streamId}` } });
    engine.stage(engine.requests[0]!.key, TRANSFER);
    const fetched = encodeCancel('f1', [1, 2, 3], true);
    await bus.request(context.subjects.cancel('w1'), fetched, { timeoutMs: 1_000 });
    assert.deepEqual([worker.running, worker.staged, engine.aborted.length], [1, 0, 0]);
    assert.match(await metric(context, 'staged_ends_total'), /how="fetched".* 1$/);
  }));

test('a drain waits for KV that is not fetched yet, up to its limit', () =>
  withWorker(workerOf('prefill', 'tcp'), async ({ worker, engine, send }) => {
    await send({ stageKv: { transferId: 't1' } });
    const { key } = engine.requests[0]!;
    engine.stage(key, TRANSFER);
    await worker.drain(AbortSignal.timeout(20));
    assert.equal(worker.staged, 1);
    const deadline = new AbortController();
    const drained = worker.drain(deadline.signal);
    const first = await Promise.race([drained.then(() => 'drained'), sleep(30, 'waits')]);
    assert.equal(first, 'waits');
    engine.sink?.onStagedEnd(key, 'fetched');
    await drained;
    assert.equal(deadline.signal.aborted, false);
  }));

test('parameters that no message carries end the leg with an error and free its KV', () =>
  withWorker(workerOf('prefill', 'nixl'), async ({ worker, engine, deltas, send }) => {
    await send({ stageKv: { transferId: 't1' } });
    const more = 'x'.repeat(limit('transferParamsBytes'));
    engine.stage(engine.requests[0]!.key, nixlTransfer({ more }));
    await until('the end', () => deltas.length === 1);
    assert.deepEqual(
      [deltas[0]?.finish, deltas[0]?.error?.retryable, deltas[0]?.transfer],
      ['error', true, undefined],
    );
    assert.equal(worker.staged, 0);
  }));

test('each kind of work goes only to workers that do it', async () => {
  const stageKv = { transferId: 't' };
  const nixl: KvSource = { ...SOURCE, transfer: nixlTransfer() };
  for (const [info, header, expected] of [
    [workerOf('prefill', 'tcp'), {}, 'WORKER_WRONG_KIND true'],
    [workerOf('prefill', undefined), { stageKv }, 'WORKER_WRONG_KIND true'],
    [workerOf('decode', 'tcp'), { stageKv }, 'WORKER_WRONG_KIND true'],
    [workerOf('decode', 'tcp'), { stageKv, kvSource: SOURCE }, 'WORKER_BAD_REQUEST false'],
    [workerOf('decode', 'tcp'), { kvSource: SOURCE }, 'accepted'],
    [workerOf('decode', 'tcp'), { kvSource: nixl }, 'WORKER_WRONG_KIND true'],
    [workerOf('decode', undefined), { kvSource: SOURCE }, 'WORKER_WRONG_KIND true'],
    [workerOf('decode', 'nixl'), { kvSource: nixl }, 'accepted'],
    [workerOf('decode', 'tcp'), { kvSource: { ...SOURCE, validForMs: 0 } }, 'WORKER_KV_LOST true'],
  ] as const) {
    await withWorker(info, async ({ engine, send }) => {
      assert.equal(codeOf(await send(header)), expected, JSON.stringify(header));
      assert.equal(engine.requests.length, expected === 'accepted' ? 1 : 0);
    });
  }
});

test('a fetch is told to the account of its link, counted and timed', async () => {
  const told: unknown[] = [];
  const fetches: FetchObserver = {
    began: (key, from) => void told.push(['began', key, from]),
    ended: (key, report) => void told.push(['ended', key, report.outcome]),
  };
  await withWorker(
    workerOf('decode', 'tcp'),
    async ({ context, engine, send }) => {
      await send({ kvSource: SOURCE });
      const { key, kvSource, maxTokens } = engine.requests[0]!;
      assert.deepEqual([kvSource, maxTokens], [SOURCE, 200]);
      engine.sink?.onFetchBegin(key);
      engine.sink?.onFetchEnd(key, { outcome: 'busy', bytes: 0 });
      engine.sink?.onFetchBegin(key);
      engine.sink?.onFetchEnd(key, { outcome: 'failed', bytes: 9, reason: 'gone' });
      assert.deepEqual(told, [
        ['began', key, 'p1'],
        ['ended', key, 'busy'],
        ['began', key, 'p1'],
        ['ended', key, 'failed'],
      ]);
      for (const outcome of ['busy', 'failed']) {
        assert.match(await metric(context, `kv_fetches_total.outcome="${outcome}"`), / 1$/);
      }
      assert.match(await metric(context, 'kv_fetch_bytes_total'), / 9$/);
      assert.match(await metric(context, 'kv_fetch_seconds_count'), / 1$/);
    },
    fetches,
  );
});

test('a warm-up runs like any request, and is counted neither as a request nor as a transfer', async () => {
  const told: unknown[] = [];
  const fetches: FetchObserver = {
    began: (key) => void told.push(key),
    ended: (key) => void told.push(key),
  };
  await withWorker(
    workerOf('decode', 'tcp'),
    async ({ context, engine, deltas, send }) => {
      assert.equal(codeOf(await send({ kvSource: SOURCE, isWarmUp: true })), 'accepted');
      const { key } = engine.requests[0]!;
      engine.sink?.onFetchBegin(key);
      engine.sink?.onFetchEnd(key, { outcome: 'ok', bytes: 9 });
      engine.stage(key, undefined);
      await until('the end', () => deltas.length === 1);
      assert.deepEqual([deltas[0]?.finish, told], ['length', []]);
      const page = await context.registry.metrics();
      const counted = page.match(
        /^busbar_decode_(requests|prompt_tokens|output_tokens|cached_tokens|kv_fetches|kv_fetch_bytes)_total.* [1-9]\d*$/gm,
      );
      assert.equal(counted, null);
    },
    fetches,
  );
});
