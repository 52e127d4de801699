import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cluster } from './cluster.ts';

let cluster: Cluster;
before(async () => {
  cluster = await Cluster.start({
    decode: 1,
    decodeEnv: { BUSBAR_PROFILE: 'instant', BUSBAR_MODEL: 'm', BUSBAR_CONTEXT_TOKENS: '2048' },
  });
});
after(() => cluster[Symbol.asyncDispose]());

const message = { role: 'user', content: 'hi' };
const base = { model: 'm', messages: [message], max_tokens: 4 };

interface Bad {
  name: string;
  body: unknown;
  status: number;
  param?: string | null;
  code?: string;
}

const BAD: Bad[] = [
  { name: 'not JSON', body: '{', status: 400 },
  { name: 'an array', body: '[]', status: 400 },
  { name: 'no model', body: { messages: [message] }, status: 400, param: 'model' },
  { name: 'no messages', body: { model: 'm' }, status: 400, param: 'messages' },
  { name: 'empty messages', body: { ...base, messages: [] }, status: 400, param: 'messages' },
  { name: 'unknown role', body: { ...base, messages: [{ role: 'x', content: 'a' }] }, status: 400 },
  {
    name: 'unknown model',
    body: { ...base, model: 'nope' },
    status: 404,
    param: 'model',
    code: 'model_not_found',
  },
  {
    name: 'max_tokens text',
    body: { ...base, max_tokens: 'abc' },
    status: 400,
    param: 'max_tokens',
  },
  { name: 'max_tokens 0', body: { ...base, max_tokens: 0 }, status: 400, param: 'max_tokens' },
  { name: 'max_tokens -5', body: { ...base, max_tokens: -5 }, status: 400, param: 'max_tokens' },
  { name: 'max_tokens 1.5', body: { ...base, max_tokens: 1.5 }, status: 400, param: 'max_tokens' },
  {
    name: 'max_tokens 10^12',
    body: { ...base, max_tokens: 1e12 },
    status: 400,
    param: 'max_tokens',
  },
  {
    name: 'temperature 2.1',
    body: { ...base, temperature: 2.1 },
    status: 400,
    param: 'temperature',
  },
  { name: 'top_p 1.5', body: { ...base, top_p: 1.5 }, status: 400, param: 'top_p' },
  { name: 'n 0', body: { ...base, n: 0 }, status: 400, param: 'n' },
  { name: 'n 100000', body: { ...base, n: 100_000 }, status: 400, param: 'n' },
  {
    name: 'five stops',
    body: { ...base, stop: ['a', 'b', 'c', 'd', 'e'] },
    status: 400,
    param: 'stop',
  },
  {
    name: 'half a million stops',
    body: { ...base, stop: Array.from({ length: 500_000 }, () => 'a') },
    status: 400,
  },
  {
    name: 'logit_bias of 10^5',
    body: {
      ...base,
      logit_bias: Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [i, 1])),
    },
    status: 400,
    param: 'logit_bias',
  },
  {
    name: '5000 tools',
    body: {
      ...base,
      tools: Array.from({ length: 5000 }, () => ({ type: 'function', function: { name: 'f' } })),
    },
    status: 400,
    param: 'tools',
  },
  {
    name: '10^5 messages',
    body: { ...base, messages: Array.from({ length: 100_000 }, () => message) },
    status: 400,
  },
  { name: 'top_logprobs 100', body: { ...base, logprobs: true, top_logprobs: 100 }, status: 400 },
  { name: 'deep JSON', body: `${'['.repeat(100_000)}${']'.repeat(100_000)}`, status: 400 },
  {
    name: 'kv transfer parameters',
    body: {
      ...base,
      kv_transfer_params: { do_remote_prefill: true, remote_host: '169.254.169.254' },
    },
    status: 400,
    param: 'kv_transfer_params',
  },
  {
    name: 'longer than the context',
    body: { ...base, messages: [{ role: 'user', content: 'river stone '.repeat(3000) }] },
    status: 400,
    code: 'context_length_exceeded',
  },
  { name: 'prompt and answer over the context', body: { ...base, max_tokens: 4000 }, status: 400 },
  {
    name: 'above the body limit',
    body: { ...base, messages: [{ role: 'user', content: 'a'.repeat(17_000_000) }] },
    status: 413,
  },
];

for (const bad of BAD) {
  for (const stream of [false, true]) {
    test(`${bad.name}${stream ? ', streamed' : ''}: ${bad.status} in the OpenAI envelope before any worker is asked`, async () => {
      const body = typeof bad.body === 'string' ? bad.body : { ...(bad.body as object), stream };
      const [worker] = cluster.ofRole('decode');
      assert.ok(worker);
      const asked = (): Promise<number> =>
        cluster.metric(worker, 'busbar_decode_prompt_tokens_total');
      const askedBefore = await asked();
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      const started = performance.now();
      const response = await cluster.post('/v1/chat/completions', text);
      const tookMs = performance.now() - started;
      assert.equal(response.status, bad.status);
      assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
      const { error } = (await response.json()) as {
        error: { message: string; type: string; param: string | null; code: string | null };
      };
      assert.ok(error.message.length > 5);
      assert.equal(typeof error.type, 'string');
      if (bad.param !== undefined) assert.equal(error.param, bad.param);
      if (bad.code !== undefined) assert.equal(error.code, bad.code);
      assert.doesNotMatch(error.message, /zod|\bat \/|node:|undefined/i);
      assert.ok(tookMs < 1000, `${tookMs} ms`);
      assert.equal(await asked(), askedBefore);
    });
  }
}

test('wrong content type, path and method have their own statuses', async () => {
  const text = JSON.stringify(base);
  assert.equal(
    (
      await cluster.post('/v1/chat/completions', text, {
        headers: { 'content-type': 'text/plain' },
      })
    ).status,
    415,
  );
  assert.equal((await fetch(`${cluster.url()}/v1/nope`)).status, 404);
  const method = await fetch(`${cluster.url()}/v1/chat/completions`);
  assert.equal(method.status, 405);
  assert.match(method.headers.get('allow') ?? '', /POST/);
});

test('lone surrogates and __proto__ keys do no harm', async () => {
  for (const stream of [false, true]) {
    const chat = await cluster.chat('', {
      stream,
      stream_options: undefined,
      max_tokens: 2,
      messages: [{ role: 'user', content: 'a\ud800b' }],
    });
    assert.ok(chat.status === 200 || chat.status === 400, `${chat.status}`);
  }
  const proto = await cluster.post(
    '/v1/chat/completions',
    `{"__proto__":{"polluted":1},"model":"m","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`,
  );
  assert.ok(proto.status === 200 || proto.status === 400);
});

test('an omitted max_tokens is clamped to the context, not refused', async () => {
  const chat = await cluster.chat('river stone '.repeat(300), {
    max_tokens: undefined,
    ignore_eos: true,
  });
  assert.equal(chat.status, 200);
  assert.equal(chat.finish, 'length');
  assert.equal(chat.usage?.total_tokens, 2048);
});

test('a stream that runs meanwhile is not held up by bombs', async () => {
  const running = cluster.chat('hello', { max_tokens: 400, ignore_eos: true });
  await Promise.all(
    BAD.slice(17, 23).map((bad) =>
      cluster.post('/v1/chat/completions', bad.body).then((response) => response.text()),
    ),
  );
  const chat = await running;
  assert.equal(chat.usage?.completion_tokens, 400);
});
