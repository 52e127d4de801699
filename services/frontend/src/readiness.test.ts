import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createCloudEvent,
  createSubjects,
  type EventKind,
  encodeCloudEvent,
} from '@busbar/protocol';
import { createTestContext } from '@busbar/service/testing';
import { createFrontend, frontendConfigSchema } from './index.ts';
import {
  answerOf,
  byteTokenizer,
  eventsOf,
  ScriptedStack,
  until,
} from './scripted-stack.testing.ts';

interface Listing {
  id?: string;
  data: { id: string }[];
}

async function json(
  stack: ScriptedStack,
  path: string,
): Promise<{ status: number; body: Listing }> {
  const response = await fetch(`${stack.url}${path}`);
  return { status: response.status, body: JSON.parse(await response.text()) };
}

test('listed means routable; known but unserved is 503; odd names work; broken cards stand alone', async () => {
  const stack = await ScriptedStack.start();
  try {
    assert.deepEqual((await json(stack, '/v1/models')).body.data[0], {
      id: 'm',
      object: 'model',
      created: 1_767_225_600,
      owned_by: 'busbar',
      max_model_len: 2_000_000,
    });
    for (const name of ['Qwen/Qwen3-0.6B', 'llama3:8b', '模型 x']) {
      await stack.putModel(name);
      await stack.chatUntil(503, { model: name });
      const worker = await stack.addWorker(`decode-${stack.workers.length + 1}`, name);
      stack.route = () => stack.place(worker.id);
      await stack.chatUntil(200, { model: name });
      const path = name.includes('/') ? name : encodeURIComponent(name);
      assert.equal((await json(stack, `/v1/models/${path}`)).body.id, name);
    }
    stack.route = undefined;
    await stack.putModel('broken', { tokenizerPath: '/nonexistent', tokenizerDigest: 'x' });
    await stack.chatUntil(503, { model: 'broken' });
    assert.equal((await stack.chat()).status, 200);
    await stack.dropInstance('decode', 'decode-1');
    await stack.chatUntil(503);
    assert.equal((await stack.chat({ model: 'never' })).status, 404);
    const ids = (await json(stack, '/v1/models')).body.data.map((model) => model.id);
    assert.ok(!ids.includes('m') && ids.length === 3, ids.join());
    await stack.putInstance('decode', 'decode-1', 'm');
    await stack.dropInstance('router', 'router-1');
    await until(async () => (await json(stack, '/v1/models')).body.data.length === 0);
    assert.equal((await stack.chat()).status, 503);
  } finally {
    await stack.stop();
  }
});

test('a router that hears of a new worker late does not make the first request fail', async () => {
  const stack = await ScriptedStack.start();
  try {
    let asked = 0;
    stack.route = () =>
      ++asked < 4
        ? { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'not yet' }
        : stack.place('decode-1');
    assert.equal((await stack.chat()).status, 200);
    assert.equal(asked, 4);
    stack.route = () => ({ kind: 'reject', code: 'ROUTER_QUEUE_FULL', message: 'full' });
    const busy = await stack.chat();
    assert.equal(busy.status, 429);
    assert.ok(busy.headers.get('retry-after'));
    const message = 'no worker was heard of in time';
    let silences = 0;
    stack.route = () => {
      silences++;
      return { kind: 'reject', code: 'ROUTER_WORKERS_SILENT', message };
    };
    const silent = await stack.chat();
    assert.equal(silent.status, 503, 'workers that are dead are no fault of the client');
    assert.equal((await answerOf(silent)).error.code, 'no_workers');
    assert.equal(silences, 1, 'the router has waited long enough');
  } finally {
    await stack.stop();
  }
});

test('checks: nothing there is unready, missing KV events are degraded until they come', async () => {
  const stack = await ScriptedStack.start();
  try {
    const say = (kind: EventKind): void =>
      stack.controlBus.publish(
        createSubjects('test').event(kind),
        encodeCloudEvent(
          createCloudEvent(kind, {
            id: '1',
            source: '/busbar/test/router/router-1',
            time: '2026-01-01T00:00:00Z',
            subject: 'decode-1',
            data: { workerId: 'decode-1', reason: 'no KV events after 4 stored blocks' },
          }),
        ),
      );
    const degraded = (): string[] =>
      stack.frontend
        .checks()
        .filter((check) => check.ok && check.isDegraded)
        .map((check) => check.detail);
    assert.deepEqual(degraded(), []);
    say('router.demoted');
    await until(() => degraded().length === 1);
    assert.match(degraded()[0]!, /decode-1: no KV events/);
    say('router.promoted');
    await until(() => degraded().length === 0);
    await stack.dropInstance('decode', 'decode-1');
    await until(() => stack.frontend.checks().some((check) => !check.ok));
    assert.equal((await json(stack, '/live')).status, 200);
    assert.match(await (await fetch(`${stack.url}/metrics`)).text(), /busbar_frontend_in_flight/);
  } finally {
    await stack.stop();
  }
});

test('prefill workers alone serve no model, and no router that insists on a pair goes unheard', async () => {
  const stack = await ScriptedStack.start();
  try {
    const details = (): string =>
      stack.frontend
        .checks()
        .map((check) => check.detail)
        .join();
    assert.equal((await stack.chat()).status, 200);
    const message = 'strict: no prefill worker of this model is there';
    stack.route = () => ({ kind: 'reject', code: 'ROUTER_NO_PAIR', message });
    assert.doesNotMatch(details(), /prefill/);
    const refused = await stack.chat();
    assert.equal(refused.status, 503);
    const body = await answerOf(refused);
    assert.deepEqual([body.error.code, body.error.message], ['no_pair', message]);
    assert.match(details(), /model "m": strict: no prefill worker/);
    await stack.addWorker('prefill-1', 'm', undefined, { role: 'prefill' });
    await stack.dropInstance('decode', 'decode-1');
    await until(() => stack.frontend.checks().some((check) => !check.ok));
    assert.deepEqual((await json(stack, '/v1/models')).body.data, []);
    assert.equal((await stack.chat()).status, 503);
  } finally {
    await stack.stop();
  }
});

test('a model whose last worker drained is no complaint and answers 503; one whose worker died is one', async () => {
  const stack = await ScriptedStack.start();
  try {
    const complaints = (): string[] =>
      stack.frontend
        .checks()
        .filter((check) => !check.ok || check.isDegraded === true)
        .map((check) => check.detail);
    await stack.putModel('old');
    await stack.addWorker('decode-2', 'old');
    await until(() => complaints().length === 0);
    await stack.putInstance('decode', 'decode-2', 'old', {}, 'draining');
    await until(() => complaints().length === 1);
    await stack.dropInstance('decode', 'decode-2');
    await until(() => complaints().length === 0);
    const response = await stack.chat({ model: 'old' });
    assert.equal(response.status, 503);
    const body = await answerOf(response);
    assert.deepEqual([body.error.code, body.error.param], ['model_unavailable', 'model']);
    const page = await fetch(`${stack.url}/v1/models/old`);
    assert.deepEqual(await page.json(), JSON.parse(JSON.stringify(body)), 'one wording everywhere');
    const other = await answerOf(fetch(`${stack.url}/v1/models/never`));
    assert.deepEqual(other, await answerOf(stack.chat({ model: 'never' })));
    await stack.putInstance('decode', 'decode-2', 'old');
    await until(() => stack.frontend.checks()[0]?.detail === '2 served');
    await stack.dropInstance('decode', 'decode-2');
    await until(() => complaints().length === 1);
  } finally {
    await stack.stop();
  }
});

test('drain: new requests are refused with Connection: close, running ones end', async () => {
  const stack = await ScriptedStack.start({
    script: async (worker, { streamId }) => {
      worker.emit(streamId, 'a');
      await sleep(300);
      worker.emit(streamId, 'b', 'stop');
    },
  });
  try {
    const running = await stack.chat({ stream: true });
    const drained = stack.frontend
      .drain(AbortSignal.timeout(5_000))
      .then(() => stack.frontend.stop());
    const refused = await stack.chat();
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get('connection'), 'close');
    const events = eventsOf(await running.text());
    assert.equal(events.at(-1)?.choices[0]?.finish_reason, 'stop');
    await drained;
  } finally {
    await stack.stop();
  }
});

test('drain with too little time: one error event and [DONE]', async () => {
  const stack = await ScriptedStack.start({
    script: (worker, { streamId }) => worker.emit(streamId, 'a'),
  });
  try {
    const running = await stack.chat({ stream: true });
    await stack.frontend.drain(AbortSignal.timeout(100));
    await stack.frontend.stop();
    const events = eventsOf(await running.text());
    assert.equal(events.at(-1)?.error.code, 'draining');
    assert.equal(stack.workers[0]!.cancelled.length, 1);
  } finally {
    await stack.stop();
  }
});

test('a port that is taken is a sentence, not a stack', async () => {
  const stack = await ScriptedStack.start();
  try {
    const config = frontendConfigSchema.parse({ httpPort: Number(new URL(stack.url).port) });
    await assert.rejects(
      createFrontend(
        createTestContext('frontend', stack.controlBus, 'frontend-2'),
        config,
        async () => byteTokenizer,
      ),
      (error: Error) => /in use by another process; choose another/.test(error.message),
    );
  } finally {
    await stack.stop();
  }
});
