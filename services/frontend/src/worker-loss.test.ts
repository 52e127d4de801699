import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limit } from '@busbar/protocol';
import { answerOf, eventsOf, type Script, until, withStack } from './scripted-stack.testing.ts';

const nothing: Script = () => {};
const firstOnly: Script = (worker, { streamId }) => worker.emit(streamId, 'a');

test('nobody listens at the chosen worker: another one answers at once', () =>
  withStack({ workers: 2 }, async (stack) => {
    await stack.workers[0]!.kill();
    const start = performance.now();
    assert.equal((await stack.chat()).status, 200);
    assert.ok(performance.now() - start < 300);
    assert.deepEqual(stack.routed.at(-1)!.request.excluded, ['decode-1']);
  }));

test('a refusal moves on or ends, as the worker says; a full pool is 429', () =>
  withStack({ workers: 2 }, async (stack) => {
    const [first, second] = stack.workers;
    const full = {
      kind: 'refused',
      code: 'WORKER_FULL',
      message: 'full',
      retryable: true,
    } as const;
    first!.ack = () => full;
    assert.equal((await stack.chat()).status, 200);
    second!.ack = () => full;
    const busy = await stack.chat({ stream: true });
    assert.equal(busy.status, 429);
    assert.equal(busy.headers.get('retry-after'), '1');
    first!.ack = () => ({ ...full, code: 'WORKER_TOO_LONG', retryable: false });
    const routedBefore = stack.routed.length;
    const tooLong = await stack.chat();
    assert.equal(tooLong.status, 400);
    assert.equal(stack.routed.length, routedBefore + 1);
    await until(() => stack.ended('rejected') === 4);
  }));

test('killed before the first token: placed elsewhere; after it: one error event and [DONE]', () =>
  withStack({ workers: 2, script: nothing }, async (stack) => {
    const [first, second] = stack.workers;
    second!.script = (worker, { streamId }) => worker.emit(streamId, 'ok', 'stop');
    const waiting = stack.chat({ stream: true });
    await until(() => first!.works.length === 1);
    first!.script = firstOnly;
    const started = stack.chat({ stream: true });
    const whole = stack.chat();
    await until(() => first!.works.length === 3);
    await started;
    await first!.kill();
    const killed = performance.now();
    const moved = eventsOf(await (await waiting).text());
    assert.ok(performance.now() - killed < 1_500, 'noticed by asking, not by the lease');
    assert.equal(moved[0]?.choices[0]?.delta.content, 'ok');
    const broken = eventsOf(await (await started).text());
    assert.equal(broken[0]?.choices[0]?.delta.content, 'a');
    assert.equal(broken[1]?.error.code, 'worker_lost');
    assert.equal(broken.length, 2);
    const response = await whole;
    assert.equal(response.status, 503);
    assert.equal((await answerOf(response)).error.code, 'worker_lost');
    await until(() => stack.ended('failed') === 3 && stack.ended('completed') === 1);
  }));

test('connected but silent: gone when its lease has run out', () =>
  withStack({ workers: 2, script: nothing }, async (stack) => {
    stack.workers[1]!.script = (worker, { streamId }) => worker.emit(streamId, 'ok', 'stop');
    const waiting = stack.chat();
    await until(() => stack.workers[0]!.works.length === 1);
    stack.workers[0]!.hang();
    const hung = performance.now();
    assert.equal((await waiting).status, 200);
    assert.ok(performance.now() - hung < 2 * limit('leaseTtlMs'), 'not left to the stream limit');
  }));

test('lost batches fail the stream that misses tokens, and those that end unseen', () =>
  withStack({ workers: 1, script: nothing }, async (stack) => {
    const worker = stack.workers[0]!;
    const gap = stack.chat({ stream: true });
    await until(() => worker.works.length === 1);
    const first = worker.works[0]!.header.streamId;
    worker.emit(first, 'a');
    await gap;
    worker.send('frontend-test', [
      { streamId: first, position: 5, tokens: Uint32Array.of(65), finish: 'none' },
    ]);
    assert.equal(eventsOf(await (await gap).text()).at(-1)?.error.code, 'tokens_lost');
    await until(() => worker.cancelled.includes(first));

    const silent = stack.chat({ stream: true });
    await until(() => worker.works.length === 2);
    worker.emit(worker.works[1]!.header.streamId, 'a');
    await silent;
    worker.loseBatch();
    worker.send('frontend-test', []);
    const last = eventsOf(await (await silent).text()).at(-1);
    assert.equal(last?.error.code, 'tokens_lost');
    const metrics = await (await fetch(`${stack.url}/metrics`)).text();
    assert.match(metrics, /busbar_frontend_lost_batches_total\{[^}]*\} 1/);
  }));

test('the very first batch of a worker may be the one that is lost', () =>
  withStack({ workers: 1, script: nothing }, async (stack) => {
    const worker = stack.workers[0]!;
    worker.loseBatch();
    worker.script = (w, { streamId }) => w.emit(streamId, 'ok', 'stop');
    assert.match(await (await stack.chat({ stream: true })).text(), /ok/);
    const metrics = await (await fetch(`${stack.url}/metrics`)).text();
    assert.match(metrics, /lost_batches_total\S* 1\n/);
  }));

test('an engine error: elsewhere before the first token when it may, else an error', () =>
  withStack({ workers: 2, script: nothing }, async (stack) => {
    const fault =
      (retryable: boolean): Script =>
      (worker, { streamId }) =>
        worker.emit(streamId, '', 'error', {
          error: { code: 'X', message: 'cuda /secret/path', retryable },
        });
    stack.workers[0]!.script = fault(true);
    stack.workers[1]!.script = (worker, { streamId }) => worker.emit(streamId, 'ok', 'stop');
    assert.equal((await stack.chat()).status, 200);
    stack.workers[0]!.script = fault(false);
    const response = await stack.chat({ stream: true });
    assert.equal(response.status, 502);
    assert.doesNotMatch(await response.text(), /secret/);
  }));

test('streams that nobody waits for are cancelled', () =>
  withStack({}, async (stack) => {
    const worker = stack.workers[0]!;
    worker.send('frontend-test', [
      { streamId: 77, position: 0, tokens: Uint32Array.of(65), finish: 'none' },
    ]);
    await until(() => worker.cancelled.includes(77));
  }));

test('an outage of the bus: what runs ends in bounded time, then everything works again', () =>
  withStack({ workers: 1, script: firstOnly }, async (stack) => {
    const worker = stack.workers[0]!;
    const running = stack.chat({ stream: true });
    await until(() => worker.works.length === 1);
    await running;
    stack.network.disconnect();
    const during = await stack.chat();
    assert.equal(during.status, 503);
    assert.ok(during.headers.get('retry-after'));
    await sleep(200);
    stack.network.reconnect();
    const start = performance.now();
    const events = eventsOf(await (await running).text());
    assert.equal(events.at(-1)?.error.code, 'tokens_lost');
    assert.ok(performance.now() - start < 4_000);
    worker.script = (w, { streamId }) => w.emit(streamId, 'ok', 'stop');
    assert.equal((await stack.chat()).status, 200);
  }));
