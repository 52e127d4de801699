import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '@busbar/testkit';
import { Cluster, type Member, words } from './cluster.ts';

let cluster: Cluster;
let worker: Member;
let router: Member;
before(async () => {
  // Slow enough that a request can be caught in its prefill: a step of 800 tokens takes about a second.
  cluster = await Cluster.start({
    decode: 1,
    decodeEnv: {
      BUSBAR_PROFILE: 'seed-8gb',
      BUSBAR_MODEL: 'm',
      BUSBAR_MOCK_SPEED: '0.05',
      BUSBAR_KV_BLOCKS: '4000',
    },
  });
  [worker, router] = [cluster.ofRole('decode')[0]!, cluster.ofRole('router')[0]!];
});
after(() => cluster[Symbol.asyncDispose]());

async function isIdle(): Promise<boolean> {
  const running = await cluster.metric(worker, 'busbar_decode_running_requests');
  const waiting = await cluster.metric(worker, 'busbar_decode_waiting_requests');
  const bookings = await cluster.metric(router, 'busbar_router_booked_requests');
  return running + waiting + bookings === 0;
}

async function isBusy(): Promise<boolean> {
  return (
    (await cluster.metric(worker, 'busbar_decode_running_requests')) +
      (await cluster.metric(worker, 'busbar_decode_waiting_requests')) >
    0
  );
}

const STAGES = [
  { name: 'during prefill, streamed', body: { stream: true }, words: 250, chunks: 0 },
  { name: 'during prefill, not streamed', body: { stream: false }, words: 250, chunks: 0 },
  { name: 'after some tokens', body: { stream: true }, words: 20, chunks: 2 },
  { name: 'after some tokens, not streamed', body: { stream: false }, words: 20, chunks: 0 },
  { name: 'with four candidates', body: { stream: true, n: 4 }, words: 20, chunks: 1 },
];

for (const stage of STAGES) {
  test(`a client that leaves ${stage.name} stops the engine within 500 ms and frees everything`, async () => {
    const abort = new AbortController();
    const call = cluster
      .post(
        '/v1/chat/completions',
        {
          model: 'm',
          max_tokens: 400,
          ignore_eos: true,
          messages: [{ role: 'user', content: words(stage.words, 9) }],
          ...stage.body,
        },
        { signal: abort.signal },
      )
      .then((response) => readUntil(response, stage.chunks, () => abort.abort()))
      .catch(() => undefined);
    if (stage.chunks === 0) {
      await waitFor(isBusy, 5000, 'the engine to work');
      await sleep(200);
      abort.abort();
    }
    await call;
    // One step of this slow engine lasts up to a second; the cancel itself must arrive within 500 ms and act at the step's end.
    await waitFor(isIdle, 2500, 'engine and ledgers to be empty');
  });
}

test('an upload that ends and a socket that is used again are no disconnects', async () => {
  const body = JSON.stringify({
    model: 'm',
    max_tokens: 2,
    messages: [{ role: 'user', content: 'hi' }],
  });
  const socket = connect(Number(new URL(cluster.url()).port), '127.0.0.1');
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk.toString();
  });
  for (let i = 1; i <= 3; i++) {
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
    for (const piece of [body.slice(0, 20), body.slice(20)])
      socket.write(`${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`);
    socket.write('0\r\n\r\n');
    await waitFor(
      () => received.split('"finish_reason":"length"').length - 1 === i,
      8000,
      `answer ${i}`,
    );
  }
  socket.destroy();
});

test('a short request right after is served at once', async () => {
  await waitFor(isIdle, 3000, 'idle');
  const chat = await cluster.chat('quick', { max_tokens: 1 });
  assert.equal(chat.finish, 'length');
});

/** Reads an answer and calls `stop` from its `events`-th event with text on; 0 reads to the end. */
async function readUntil(response: Response, events: number, stop: () => void): Promise<void> {
  let seen = 0;
  for await (const chunk of response.body ?? []) {
    if (Buffer.from(chunk).includes('"content"') && ++seen >= events && events > 0) stop();
  }
}
