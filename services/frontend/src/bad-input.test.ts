import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limit } from '@busbar/protocol';
import { cpuMs, ScriptedStack } from './scripted-stack.testing.ts';

let stack: ScriptedStack;
before(async () => {
  stack = await ScriptedStack.start();
  await stack.putModel('short', { contextTokens: 30 });
  await stack.addWorker('decode-short', 'short');
});
after(() => stack.stop());

interface Envelope {
  error: { message: string; type: string; param: string | null; code: string | null };
}

async function refusal(response: Response, status: number): Promise<Envelope['error']> {
  const text = await response.text();
  assert.equal(response.status, status, text);
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
  const { error }: Envelope = JSON.parse(text);
  assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code']);
  assert.equal(typeof error.message, 'string');
  assert.doesNotMatch(error.message, /zod|at .*\.ts|node:|\/work\//i);
  return error;
}

test('every mistake gets the envelope, the right status and reaches no router', async () => {
  const routedBefore = stack.routed.length;
  const message = [{ role: 'user', content: 'x' }];
  assert.equal((await refusal(await stack.post('{'), 400)).code, 'invalid_json');
  assert.equal((await refusal(await stack.post('[]'), 400)).code, 'invalid_json');
  assert.equal((await refusal(await stack.post(''), 400)).code, 'invalid_json');
  assert.equal((await refusal(await stack.post({ messages: message }), 400)).param, 'model');
  assert.equal((await refusal(await stack.chat({ max_tokens: 'abc' }), 400)).param, 'max_tokens');
  assert.equal((await refusal(await stack.chat({ messages: [] }), 400)).param, 'messages');
  const unknown = await refusal(await stack.chat({ model: 'nope' }), 404);
  assert.deepEqual([unknown.param, unknown.code], ['model', 'model_not_found']);
  const text = { headers: { 'content-type': 'text/plain' } };
  assert.equal((await refusal(await stack.chat({}, text), 415)).code, 'unsupported_media_type');
  for (const [charset, status] of [
    ['iso-8859-1', 415],
    ['"UTF-8"', 400],
  ] as const) {
    const headers = { 'content-type': `application/json; charset=${charset}` };
    await refusal(await stack.post('{', { headers }), status);
  }
  const nowhere = await refusal(await fetch(`${stack.url}/chat/completions`), 404);
  assert.match(nowhere.message, /no such path.*\/v1\/chat\/completions, /);
  const method = await fetch(`${stack.url}/v1/chat/completions`);
  assert.equal(method.headers.get('allow'), 'POST');
  await refusal(method, 405);
  await refusal(await fetch(`${stack.url}/v1/models`, { method: 'DELETE' }), 405);
  await refusal(await fetch(`${stack.url}/v1/models/nope`), 404);
  const latin = await fetch(`${stack.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from([0x22, 0xff, 0x22]),
  });
  assert.equal((await refusal(latin, 400)).code, 'invalid_json');
  assert.equal(stack.routed.length, routedBefore);
});

test('the same in streams', async () => {
  const routedBefore = stack.routed.length;
  for (const [fields, param] of [
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: 1.5 }, 'max_tokens'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
    [{ temperature: 2.1 }, 'temperature'],
    [{ top_p: 1.5 }, 'top_p'],
    [{ n: 0 }, 'n'],
    [{ top_logprobs: 100 }, 'top_logprobs'],
    [{ kv_transfer_params: {} }, 'kv_transfer_params'],
  ] as const) {
    assert.equal((await refusal(await stack.chat({ ...fields, stream: true }), 400)).param, param);
  }
  assert.equal(stack.routed.length, routedBefore);
});

test('too long is told before a worker is asked; an omitted max_tokens is what is left', async () => {
  const routedBefore = stack.routed.length;
  const model = 'short';
  const chat = (content: string, fields: object = {}): Promise<Response> =>
    stack.chat({ model, messages: [{ role: 'user', content }], ...fields });
  const frame = '<user><assistant>'.length;
  for (const [content, fields, param] of [
    ['x'.repeat(30 - frame), {}, 'messages'],
    ['x'.repeat(500), { max_tokens: 1 }, 'messages'],
    ['x', { max_tokens: 30 }, 'max_tokens'],
    ['x', { max_completion_tokens: 30 }, 'max_completion_tokens'],
  ] as const) {
    const error = await refusal(await chat(content, fields), 400);
    assert.deepEqual([error.code, error.param], ['context_length_exceeded', param]);
  }
  assert.equal(stack.routed.length, routedBefore);
  const worker = stack.workers.at(-1)!;
  stack.route = () => stack.place(worker.id);
  assert.equal((await chat('x'.repeat(29 - frame))).status, 200);
  assert.equal(worker.works.at(-1)!.header.maxTokens, 1);
  assert.equal((await chat('x', { max_tokens: 12 })).status, 200);
  stack.route = undefined;
  const prompt = { model, prompt: [999] };
  const error = await refusal(await stack.post(prompt, { path: '/v1/completions' }), 400);
  assert.match(error.message, /999/);
  const stops = await refusal(await chat('x', { stop_token_ids: [1, 1e9] }), 400);
  assert.deepEqual([stops.param, /1000000000/.test(stops.message)], ['stop_token_ids', true]);
  const bias = await refusal(await chat('x', { logit_bias: { 1: 1, 999: -5 } }), 400);
  assert.deepEqual([bias.param, /999/.test(bias.message)], ['logit_bias', true]);
  assert.equal((await chat('x', { logit_bias: { 1: 1 } })).status, 200);
});

test('small bodies that mean huge work: refused with little work', async () => {
  const list = (item: string, count: number): string => `[${`${item},`.repeat(count - 1)}${item}]`;
  const head = '{"model":"m","messages":[{"role":"user","content":"x"}]';
  const keys = Array.from({ length: 100_000 }, (_, i) => `"${i}":1`).join(',');
  const bombs: Record<string, string> = {
    n: `${head},"n":100000}`,
    prompt: `{"model":"m","prompt":${list('"x"', 1_000_000)}}`,
    stop: `${head},"stop":${list('"s"', 500_000)}}`,
    bias: `${head},"logit_bias":{${keys}}}`,
    tools: `${head},"tools":${list('{"type":"function","function":{"name":"f"}}', 5000)}}`,
    depth: `${head},"user":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    messages: `{"model":"m","messages":${list('{"role":"user","content":""}', 100_000)}}`,
    format: `${head},"response_format":{"type":"json_schema","json_schema":{"pattern":"(a+)+$"}}}`,
    maxTokens: `${head},"max_tokens":1000000000000}`,
  };
  for (const [name, body] of Object.entries(bombs)) {
    const path = name === 'prompt' ? '/v1/completions' : '/v1/chat/completions';
    const start = cpuMs();
    await refusal(await stack.post(body, { path }), 400);
    // Client and frontend share this process, so this is more than the event loop stood still.
    const usedMs = cpuMs() - start;
    assert.ok(usedMs < 150, `${name}: ${usedMs} ms`);
  }
});

test('halves of surrogate pairs and __proto__ keys are answered like any text', async () => {
  const body = String.raw`{"model":"m","messages":[{"role":"user","content":"a\ud800b"}],"__proto__":{"n":9}}`;
  const whole = await stack.post(body);
  assert.equal(whole.status, 200);
  const sent = Buffer.from(stack.workers[0]!.works.at(-1)!.tokens).toString();
  assert.equal(sent, '<user>a\ufffdb<assistant>');
});

test('a body above the limit is 413, announced or not; a big one within it is answered', async () => {
  const tooLong = 'x'.repeat(limit('bodyBytes') + 1);
  await refusal(await stack.post(tooLong), 413);
  const chunked = await fetch(`${stack.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: new ReadableStream({
      start(controller) {
        for (let i = 0; i < 17; i++) controller.enqueue(new Uint8Array(1_048_576).fill(0x20));
        controller.close();
      },
    }),
    duplex: 'half',
  });
  await refusal(chunked, 413);
});

test('large bodies that are sent all at once have a limit together; small ones and later ones pass', async () => {
  const { hostname, port } = new URL(stack.url);
  const held = limit('bodyBytes') - 1;
  const sockets = Array.from({ length: limit('openBodyBytes') / limit('bodyBytes') }, () => {
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${limit('bodyBytes')}\r\n\r\n`,
    );
    return new Promise<typeof socket>((resolve) => {
      socket.write(Buffer.alloc(held, 0x20), () => resolve(socket));
    });
  });
  for (const socket of sockets) await socket;
  const large = { model: 'm', prompt: 'x', user: 'x'.repeat(1_000_000) };
  const path = '/v1/completions';
  // What the sockets took may still be on its way to the server.
  let refused = await stack.post(large, { path });
  for (let tries = 0; refused.status !== 429 && tries < 100; tries++) {
    await sleep(20);
    refused = await stack.post(large, { path });
  }
  assert.equal(refused.status, 429);
  assert.match(await refused.text(), /too_many_requests/);
  assert.equal((await stack.post({ model: 'm', prompt: 'x' }, { path })).status, 200);
  for (const socket of sockets) (await socket).destroy();
  for (let status = 429; status !== 200; status = (await stack.post(large, { path })).status) {
    await sleep(20);
  }
});

test('prompts larger than one bus message go in parts; neighbours are not disturbed', async () => {
  const content = 'y'.repeat(900_000);
  const small = Array.from({ length: 10 }, () => stack.chat({ stream: true }));
  const big = await stack.chat({ messages: [{ role: 'user', content }] });
  assert.equal(big.status, 200);
  const work = stack.workers[0]!.works.find(({ tokens }) => tokens.length > 900_000)!;
  assert.ok(work.header.parts! > 1);
  assert.equal(Buffer.from(work.tokens).toString(), `<user>${content}<assistant>`);
  for (const response of await Promise.all(small)) {
    assert.match(await response.text(), /\[DONE\]/);
  }
  const tooLong = await stack.chat({
    messages: [{ role: 'user', content: 'y'.repeat(1_100_000) }],
  });
  assert.equal((await refusal(tooLong, 400)).code, 'context_length_exceeded');
});

test('what is not HTTP, and headers of a megabyte, get the envelope too', async () => {
  const raw = (text: string): Promise<string> =>
    new Promise((resolve) => {
      const { hostname, port } = new URL(stack.url);
      const socket = connect(Number(port), hostname, () => socket.write(text));
      let answer = '';
      socket.on('data', (data) => (answer += data.toString()));
      socket.on('close', () => resolve(answer));
      socket.on('error', () => resolve(answer));
    });
  assert.match(await raw('nonsense\r\n\r\n'), /^HTTP\/1.1 400 [^]*"error":\{"message"/);
  const large = await raw(`GET /live HTTP/1.1\r\nx-request-id: ${'a'.repeat(20_000)}\r\n\r\n`);
  assert.match(large, /^HTTP\/1.1 431 [^]*headers_too_large/);
});
