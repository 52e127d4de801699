import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Cluster } from '../e2e/cluster.ts';

let cluster: Cluster;
let client: OpenAI;
before(async () => {
  cluster = await Cluster.start({
    decode: 1,
    decodeEnv: { BUSBAR_PROFILE: 'instant', BUSBAR_MODEL: 'm' },
  });
  client = new OpenAI({ baseURL: `${cluster.url()}/v1`, apiKey: 'unused', maxRetries: 0 });
});
after(() => cluster[Symbol.asyncDispose]());

const messages = [{ role: 'user' as const, content: 'Tell me about rivers.' }];

test('whole and streamed chats agree', async () => {
  const whole = await client.chat.completions.create({ model: 'm', messages, max_tokens: 20 });
  const stream = client.chat.completions.stream({
    model: 'm',
    messages,
    max_tokens: 20,
    stream_options: { include_usage: true },
  });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0]?.message.content, whole.choices[0]?.message.content);
  assert.equal(final.usage?.total_tokens, whole.usage?.total_tokens);
  assert.equal(whole.choices[0]?.finish_reason, 'length');
});

const byIndex = ([a]: [number, number], [b]: [number, number]): number => a - b;

test('chunks keep one id, one created, one role', async () => {
  const stream = await client.chat.completions.create({
    model: 'm',
    messages,
    max_tokens: 10,
    n: 2,
    stream: true,
  });
  const seen = {
    ids: new Set<string>(),
    created: new Set<number>(),
    roles: new Map<number, number>(),
    finishes: new Map<number, number>(),
  };
  for await (const chunk of stream) {
    seen.ids.add(chunk.id);
    seen.created.add(chunk.created);
    assert.equal(chunk.usage ?? null, null);
    for (const { index, delta, finish_reason: finish } of chunk.choices) {
      if (delta.role !== undefined) seen.roles.set(index, (seen.roles.get(index) ?? 0) + 1);
      if (finish !== null) seen.finishes.set(index, (seen.finishes.get(index) ?? 0) + 1);
    }
  }
  assert.equal(seen.ids.size, 1);
  assert.equal(seen.created.size, 1);
  assert.deepEqual([...seen.roles].toSorted(byIndex), [
    [0, 1],
    [1, 1],
  ]);
  assert.deepEqual([...seen.finishes].toSorted(byIndex), [
    [0, 1],
    [1, 1],
  ]);
});

test('completions, models and typed errors', async () => {
  const completion = await client.completions.create({
    model: 'm',
    prompt: 'A river',
    max_tokens: 5,
  });
  assert.equal(completion.usage?.completion_tokens, 5);
  const { data } = await client.models.list();
  assert.deepEqual(
    data.map((model) => model.id),
    ['m'],
  );
  assert.equal((await client.models.retrieve('m')).object, 'model');
  await assert.rejects(client.chat.completions.create({ model: 'nope', messages }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    assert.ok(error.message.length > 10);
    return true;
  });
  await assert.rejects(
    client.chat.completions.create({ model: 'm', messages, temperature: 3 }),
    OpenAI.BadRequestError,
  );
});

test('a stop string ends the answer before it', async () => {
  const whole = await client.chat.completions.create({
    model: 'm',
    messages,
    max_tokens: 40,
    seed: 1,
  });
  const text = whole.choices[0]?.message.content ?? '';
  const stop = text.slice(20, 26);
  const stopped = await client.chat.completions.create({
    model: 'm',
    messages,
    max_tokens: 40,
    seed: 1,
    stop: [stop],
  });
  assert.equal(stopped.choices[0]?.message.content, text.slice(0, text.indexOf(stop)));
  assert.equal(stopped.choices[0]?.finish_reason, 'stop');
});
