import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RouteReply } from '@busbar/protocol';
import { type Script, ScriptedStack, until } from './scripted-stack.testing.ts';

const emitThree: Script = (worker, { streamId }) => {
  for (const piece of ['a', 'b', 'c']) worker.emit(streamId, piece);
};
const nothing: Script = () => {};

async function leaveWhen(
  stack: ScriptedStack,
  body: object,
  condition: () => boolean,
  path = '/v1/chat/completions',
): Promise<void> {
  const gone = new AbortController();
  const messages = path.includes('chat') ? { messages: [{ role: 'user', content: 'x' }] } : {};
  const running = stack
    .post({ model: 'm', ...messages, ...body }, { path, signal: gone.signal })
    .then((response) => response.text())
    .catch(() => 'gone');
  await until(condition);
  gone.abort();
  assert.equal(await running, 'gone');
}

test('a client that leaves stops its streams at every stage', async () => {
  for (const [script, body, streams, path] of [
    [nothing, {}, 1, undefined],
    [nothing, { stream: true }, 1, undefined],
    [emitThree, { stream: true }, 1, undefined],
    [emitThree, {}, 1, undefined],
    [nothing, { n: 4 }, 4, undefined],
    [emitThree, { n: 4, stream: true }, 4, undefined],
    [nothing, { prompt: ['a', 'b', 'c', 'd'] }, 4, '/v1/completions'],
  ] as const) {
    const stack = await ScriptedStack.start({ script });
    try {
      const worker = stack.workers[0]!;
      await leaveWhen(stack, body, () => worker.works.length === streams, path);
      const left = performance.now();
      await until(() => worker.cancelled.length === streams, 500);
      assert.ok(performance.now() - left < 500);
      const ids = worker.works.map(({ header }) => header.streamId);
      assert.deepEqual(
        worker.cancelled.toSorted((a, b) => a - b),
        ids.toSorted((a, b) => a - b),
      );
      await until(() => stack.ended('cancelled') === streams);
      assert.equal(stack.ended('failed'), 0);
      const metrics = await (await fetch(`${stack.url}/metrics`)).text();
      assert.match(metrics, /requests_total\{outcome="cancelled"[^}]*\} 1/);
      worker.script = (w, { streamId }) => w.emit(streamId, 'z', 'stop');
      assert.equal((await stack.chat()).status, 200);
    } finally {
      await stack.stop();
    }
  }
});

test('a client that leaves while the router or the acknowledgement is awaited', async () => {
  const stack = await ScriptedStack.start({ script: nothing });
  try {
    const worker = stack.workers[0]!;
    let decide: ((reply: RouteReply) => void) | undefined;
    stack.route = () => new Promise((resolve) => (decide = resolve));
    await leaveWhen(stack, {}, () => decide !== undefined);
    await sleep(20);
    decide!(stack.place(worker.id));
    await until(() => stack.ended('cancelled') === 1);
    assert.equal(worker.works.length, 0);
    stack.route = undefined;
    let asked = 0;
    worker.ack = () => {
      asked++;
      return undefined;
    };
    await leaveWhen(stack, {}, () => asked === 1);
    await until(() => worker.cancelled.length === 1, 500);
    await until(() => stack.ended('cancelled') === 2);
  } finally {
    await stack.stop();
  }
});

test('the end of a body is not a departure: sizes, framing, reuse of the connection', async () => {
  const stack = await ScriptedStack.start({
    script: async (worker, { streamId }) => {
      await sleep(30);
      worker.emit(streamId, 'z', 'stop');
    },
  });
  try {
    for (const size of [100, 200_000, 5_000_000]) {
      const body = JSON.stringify({ model: 'm', prompt: 'x', user: 'x'.repeat(size) });
      const path = '/v1/completions';
      assert.equal((await stack.post(body, { path })).status, 200);
      const chunked = await fetch(`${stack.url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: new Blob([body]).stream(),
        duplex: 'half',
      });
      assert.equal(chunked.status, 200);
    }
    const { hostname, port } = new URL(stack.url);
    const socket = connect(Number(port), hostname);
    let answers = '';
    socket.on('data', (data) => (answers += data.toString()));
    const body = JSON.stringify({ model: 'm', prompt: 'x' });
    for (let i = 1; i <= 5; i++) {
      socket.write(
        `POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await until(() => answers.split('HTTP/1.1 200').length === i + 1);
    }
    socket.destroy();
    assert.deepEqual(stack.workers[0]!.cancelled, []);
  } finally {
    await stack.stop();
  }
});

test('a client that ends its side of the connection has left, as one that closes it', async () => {
  const stack = await ScriptedStack.start({ script: nothing });
  try {
    const worker = stack.workers[0]!;
    const { hostname, port } = new URL(stack.url);
    const body = JSON.stringify({ model: 'm', prompt: 'x', stream: true });
    const socket = connect(Number(port), hostname);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await until(() => worker.works.length === 1);
    socket.end();
    await until(() => worker.cancelled.length === 1, 500);
    await closed;
  } finally {
    await stack.stop();
  }
});

test('a client that does not read is cut off and its stream stopped', async () => {
  const stack = await ScriptedStack.start({ script: nothing });
  try {
    const worker = stack.workers[0]!;
    const { hostname, port } = new URL(stack.url);
    const socket = connect(Number(port), hostname);
    socket.pause();
    const body = JSON.stringify({ model: 'm', prompt: 'x', stream: true, max_tokens: 900_000 });
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await until(() => worker.works.length === 1);
    const { streamId } = worker.works[0]!.header;
    const piece = 'x'.repeat(60_000);
    for (let i = 0; i < 400 && worker.cancelled.length === 0; i++) {
      worker.emit(streamId, piece);
      await sleep(2);
    }
    assert.ok(worker.cancelled.every((id) => id === streamId) && worker.cancelled.length > 0);
    socket.destroy();
  } finally {
    await stack.stop();
  }
});

test('an upload that breaks off is counted as cancelled and reaches nobody', async () => {
  const stack = await ScriptedStack.start();
  try {
    const { hostname, port } = new URL(stack.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"model":',
    );
    await sleep(50);
    socket.destroy();
    await until(async () => {
      const metrics = await (await fetch(`${stack.url}/metrics`)).text();
      return /requests_total\{outcome="cancelled"[^}]*\} 1/.test(metrics);
    });
    assert.equal(stack.routed.length, 0);
  } finally {
    await stack.stop();
  }
});
