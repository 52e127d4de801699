import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refuse, SplitStack } from './scripted-split.testing.ts';
import { until } from './scripted-stack.testing.ts';
import { transferOf } from './scripted-worker.testing.ts';

test('a decode worker that refuses after the prefill: the next one fetches the same KV; no leak', () =>
  SplitStack.with(async (stack) => {
    const { prefiller, first, second } = stack;
    for (const code of ['WORKER_FULL', 'WORKER_DRAINING'] as const) {
      first.ack = refuse(code);
      for (let i = 0; i < 20; i++) assert.equal((await stack.chat()).status, 200);
    }
    const { excluded, kvAt } = stack.routed[1]!.request;
    assert.deepEqual([excluded, kvAt], [['decode-1'], 'prefill-1']);
    assert.equal(prefiller.works.length, 40, 'each prompt is prefilled once');
    assert.equal(prefiller.cancelled.length, 0);
    for (const [i, { header }] of second.works.entries()) {
      assert.deepEqual(
        header.kvSource?.transfer,
        transferOf(String(prefiller.works[i]!.header.streamId)),
      );
      assert.ok(header.kvSource.validForMs < 20_000);
    }
    first.ack = refuse('WORKER_BAD_REQUEST', false);
    for (let i = 0; i < 20; i++) assert.equal((await stack.chat()).status, 400);
    await first.kill();
    for (let i = 0; i < 20; i++) assert.equal((await stack.chat()).status, 200);
    await stack.settled();
    assert.equal(prefiller.works.length, 80);
    assert.equal(
      prefiller.cancelled.length,
      20,
      'given up at once when nobody is left to fetch it',
    );
    assert.equal(await stack.figure('split_reuses_total'), 60);
    assert.equal(await stack.figure('split_requests_total', { outcome: 'fetched' }), 60);
    assert.equal(await stack.figure('split_requests_total', { outcome: 'failed' }), 20);
  }));

test('other routers hear where the KV is that the next decode worker fetches', () =>
  SplitStack.with(async (stack) => {
    await stack.putInstance('router', 'router-2');
    await until(() => stack.frontend.checks().every((check) => check.ok));
    stack.first.ack = refuse('WORKER_FULL');
    assert.equal((await stack.chat()).status, 200);
    await stack.settled();
    const booked = stack.life.filter((event) => event.kind === 'booked');
    assert.deepEqual(
      booked.map(({ workerId, isFetched, kvAt }) => [workerId, isFetched, kvAt]),
      [
        ['decode-1', true, undefined],
        ['prefill-1', undefined, undefined],
        ['decode-2', true, 'prefill-1'],
      ],
    );
  }));

test('KV that another worker cannot fetch is given up, and the prompt prefilled again', () =>
  SplitStack.with(async (stack) => {
    const { prefiller, first } = stack;
    first.ack = refuse('WORKER_FULL');
    stack.route = ({ excluded = [] }) =>
      stack.split(excluded.length === 0 ? 'decode-1' : 'decode-2', 'prefill-1');
    assert.equal((await stack.chat()).status, 200);
    assert.equal(stack.routed[1]?.request.kvAt, 'prefill-1');
    assert.equal(prefiller.works.length, 2);
    assert.equal(prefiller.cancelled.length, 1);
    await stack.settled();
    assert.equal(await stack.figure('split_requests_total', { outcome: 'moved' }), 1);
    assert.equal(await stack.figure('split_reuses_total'), 0);
  }));

test('KV that may have been fetched is offered to nobody else', () =>
  SplitStack.with(async (stack) => {
    const { prefiller, first } = stack;
    first.script = (worker, header) => {
      stack.fetch(header);
      const error = { code: 'WORKER_FULL', message: 'it is stopping', retryable: true };
      worker.emit(header.streamId, '', 'error', { error });
    };
    assert.equal((await stack.chat()).status, 200);
    assert.deepEqual(
      stack.routed.map(({ request }) => request.kvAt),
      [undefined, undefined],
    );
    assert.equal(prefiller.works.length, 2);
    await stack.settled();
    assert.equal(await stack.figure('split_requests_total', { outcome: 'moved' }), 1);
  }));

test('a client that leaves while another worker is sought for its KV frees it', () =>
  SplitStack.with(async (stack) => {
    const { prefiller, first } = stack;
    first.ack = refuse('WORKER_FULL');
    const gone = new AbortController();
    stack.route = async ({ kvAt }) => {
      if (kvAt === undefined) return stack.split('decode-1', 'prefill-1');
      gone.abort();
      await until(() => prefiller.cancelled.length === 1);
      return { ...stack.place('decode-2'), kvAt };
    };
    await stack.chat({}, { signal: gone.signal }).catch(() => undefined);
    await until(() => stack.routed.length === 2);
    await stack.settled();
    assert.equal(stack.second.works.length, 0);
    assert.equal(await stack.figure('split_requests_total', { outcome: 'cancelled' }), 1);
  }));
