import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cluster, words } from './cluster.ts';

test('silence is filled with comment lines in streams, never in whole answers', async () => {
  await using cluster = await Cluster.start({
    decode: 1,
    decodeEnv: {
      BUSBAR_PROFILE: 'seed-8gb',
      BUSBAR_MODEL: 'm',
      BUSBAR_MOCK_SPEED: '0.03',
      BUSBAR_KV_BLOCKS: '4000',
    },
    frontendEnv: { BUSBAR_KEEPALIVE_MS: '200' },
  });
  const body = { model: 'm', max_tokens: 3, messages: [{ role: 'user', content: words(600, 4) }] };
  const text = await (await cluster.post('/v1/chat/completions', { ...body, stream: true })).text();
  assert.match(text, /^: /m);
  assert.ok(
    text.indexOf('\n: ') < text.indexOf('"content":"') || text.startsWith(': '),
    'before the first token',
  );
  assert.match(text, /data: \[DONE\]\n\n$/);
  const whole = await (
    await cluster.post('/v1/chat/completions', {
      ...body,
      messages: [{ role: 'user', content: words(600, 5) }],
    })
  ).text();
  assert.doesNotMatch(whole, /^: /m);
  assert.equal((JSON.parse(whole) as { choices: unknown[] }).choices.length, 1);
});

test('prompts above one bus message arrive whole; above the limit they are refused and neighbours do not notice', async () => {
  await using cluster = await Cluster.start({
    decode: 1,
    decodeEnv: {
      BUSBAR_PROFILE: 'instant',
      BUSBAR_MODEL: 'm',
      BUSBAR_KV_BLOCKS: '40000',
      BUSBAR_CONTEXT_TOKENS: '600000',
    },
  });
  const neighbours = Array.from({ length: 10 }, (_, i) =>
    cluster.chat(`small ${i}`, { max_tokens: 200, ignore_eos: true }),
  );
  const prompt = Array.from({ length: 300_000 }, (_, i) => 100 + (i % 500));
  const response = await cluster.post('/v1/completions', { model: 'm', prompt, max_tokens: 3 });
  const { usage } = (await response.json()) as {
    usage: { prompt_tokens: number; completion_tokens: number };
  };
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens], [300_000, 3]);
  for (const chat of await Promise.all(neighbours))
    assert.equal(chat.usage?.completion_tokens, 200);
});
