import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { ScriptedStack } from './scripted-stack.testing.ts';

let stack: ScriptedStack;
let client: OpenAI;
before(async () => {
  stack = await ScriptedStack.start({
    env: { keepaliveMs: 100 },
    script: async (worker, { streamId }) => {
      await sleep(250);
      worker.emit(streamId, 'hé');
      await sleep(250);
      worker.emit(streamId, 'y', 'stop');
    },
  });
  client = new OpenAI({ baseURL: `${stack.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(() => stack.stop());

const messages = [{ role: 'user' as const, content: 'x' }];

test("OpenAI's own client reads a stream across keep-alive comments, with usage", async () => {
  const stream = await client.chat.completions.create({
    model: 'm',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let totalTokens = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    totalTokens = chunk.usage?.total_tokens ?? totalTokens;
  }
  assert.equal(text, 'héy');
  assert.equal(totalTokens, '<user>x<assistant>'.length + 4);
});

test("OpenAI's own client reads answers, models and errors", async () => {
  const answer = await client.chat.completions.create({ model: 'm', messages });
  assert.equal(answer.choices[0]?.message.content, 'héy');
  assert.equal((await client.models.list()).data[0]?.id, 'm');
  await assert.rejects(client.chat.completions.create({ model: 'm', messages, top_p: 2 }), {
    status: 400,
    param: 'top_p',
    type: 'invalid_request_error',
  });
  await assert.rejects(client.chat.completions.create({ model: 'nope', messages }), {
    status: 404,
    code: 'model_not_found',
  });
});
