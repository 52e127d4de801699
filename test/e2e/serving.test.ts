import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { connectNats } from '@busbar/bus';
import { createSubjects, decodeCloudEvent } from '@busbar/protocol';
import { waitFor } from '@busbar/testkit';
import { Cluster, words } from './cluster.ts';

let cluster: Cluster;
before(async () => {
  cluster = await Cluster.start({
    decode: 2,
    decodeEnv: { BUSBAR_PROFILE: 'seed-8gb', BUSBAR_MODEL: 'm' },
  });
});
after(() => cluster[Symbol.asyncDispose]());

test('a streamed chat: one answer, one finish, usage, [DONE]', async () => {
  const chat = await cluster.chat('Tell me about rivers.', { max_tokens: 12 });
  assert.equal(chat.status, 200);
  assert.ok(chat.text.length > 0);
  assert.equal(chat.finish, 'length');
  assert.equal(chat.done, true);
  assert.equal(chat.usage?.completion_tokens, 12);
  assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + 12);
});

test('who listens to request.completed hears of each answer', async () => {
  await cluster.chat('nobody listens yet', { max_tokens: 1 });
  const bus = await connectNats({ url: cluster.nats.url, name: 'test' });
  try {
    const sizes: unknown[] = [];
    bus.subscribe(createSubjects('e2e').event('request.completed'), ({ data }) => {
      sizes.push(decodeCloudEvent(data).data['outputTokens']);
    });
    await bus.flush();
    const hears = async (tokens: number): Promise<boolean> => {
      await cluster.chat('hello', { max_tokens: tokens });
      await bus.flush();
      return sizes.includes(tokens);
    };
    await waitFor(() => hears(2), 5_000, 'the first event');
    await waitFor(() => hears(3), 5_000, 'a listener that is known');
    // From now on every one comes: it is known that somebody listens, and each second it is looked anew.
    const heardBefore = sizes.length;
    for (let i = 0; i < 10; i++) await cluster.chat('hello', { max_tokens: 4 });
    await waitFor(() => Promise.resolve(sizes.length >= heardBefore + 10), 5_000, 'ten more');
  } finally {
    await bus.close();
  }
});

test('equal requests give equal text, streamed or not', async () => {
  const extra = { max_tokens: 30, seed: 5 };
  const streamed = await cluster.chat('Same question', extra);
  const whole = await cluster.chat('Same question', {
    ...extra,
    stream: false,
    stream_options: undefined,
  });
  assert.equal(whole.text, streamed.text);
  assert.deepEqual(whole.usage?.completion_tokens, streamed.usage?.completion_tokens);
});

test("the second request of a prefix finds it, by the engine's own count, in every form of the content", async () => {
  const system = words(400, 1);
  const ask = (user: unknown): ReturnType<typeof cluster.chat> =>
    cluster.chat('', {
      max_tokens: 2,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: user },
      ],
    });
  const first = await ask('one');
  assert.ok(first.usage);
  assert.ok(first.usage.prompt_tokens_details.cached_tokens < 32);
  for (const user of ['two', [{ type: 'text', text: 'three' }], 'four']) {
    const again = await ask(user);
    assert.ok(again.usage);
    const { cached_tokens: cached } = again.usage.prompt_tokens_details;
    assert.ok(
      cached > again.usage.prompt_tokens * 0.8,
      `${cached} of ${again.usage.prompt_tokens}`,
    );
  }
});

test('forty chats at once all end well and the ledgers return to zero', async () => {
  const chats = await Promise.all(
    Array.from({ length: 40 }, (_, i) => cluster.chat(words(60, i), { max_tokens: 20 })),
  );
  for (const chat of chats) {
    assert.equal(chat.error, undefined);
    assert.equal(chat.finish, 'length');
    assert.equal(chat.usage?.completion_tokens, 20);
  }
  const [router] = cluster.ofRole('router');
  assert.ok(router);
  await waitFor(
    async () => (await cluster.metric(router, 'busbar_router_booked_requests')) === 0,
    2000,
    'bookings back to 0',
  );
});

test('n candidates and several prompts come back apart, by index', async () => {
  const response = await cluster.post('/v1/completions', {
    model: 'm',
    prompt: ['a river', 'a stone'],
    n: 2,
    max_tokens: 5,
    seed: 3,
  });
  const body = (await response.json()) as {
    choices: { index: number; text: string }[];
    usage: { completion_tokens: number };
  };
  assert.deepEqual(
    body.choices.map((choice) => choice.index).toSorted((a, b) => a - b),
    [0, 1, 2, 3],
  );
  assert.equal(body.usage.completion_tokens, 20);
});

test('twenty requests with one id over the same second stay apart, and the id is never used raw', async () => {
  const chats = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      cluster.chat(
        `question ${i}`,
        { max_tokens: 5 },
        { headers: { 'content-type': 'application/json', 'x-request-id': 'same' } },
      ),
    ),
  );
  for (const chat of chats) {
    assert.equal(chat.done, true);
    assert.equal(chat.headers.get('x-request-id'), 'same');
  }
  const nasty = await cluster.chat(
    'x',
    { max_tokens: 2 },
    { headers: { 'content-type': 'application/json', 'x-request-id': '../*.> "a"' } },
  );
  assert.match(nasty.headers.get('x-request-id') ?? '', /^[A-Za-z0-9._-]{1,128}$/);
});
