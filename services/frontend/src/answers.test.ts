import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerOf, EOS, eventsOf, ScriptedStack, until } from './scripted-stack.testing.ts';

let stack: ScriptedStack;
before(async () => {
  stack = await ScriptedStack.start();
});
after(() => stack.stop());

test('a chat in one piece: text, usage, ids, life of the booking', async () => {
  const response = await stack.chat();
  assert.equal(response.status, 200);
  const answer = await answerOf(response);
  assert.match(answer.id, /^chatcmpl-[0-9a-f]{32}$/);
  assert.equal(answer.object, 'chat.completion');
  assert.deepEqual(answer.choices, [
    {
      index: 0,
      message: { role: 'assistant', content: 'ok', refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ]);
  const promptTokens = '<user>hi<assistant>'.length;
  assert.deepEqual(answer.usage, {
    prompt_tokens: promptTokens,
    completion_tokens: 3,
    total_tokens: promptTokens + 3,
    prompt_tokens_details: { cached_tokens: 3 },
  });
  await until(() => stack.ended('completed') === 1);
  assert.deepEqual(
    stack.life.map((event) => event.kind),
    ['firstToken', 'ended'],
    'the only router has booked by itself',
  );
  const { request, hashes } = stack.routed.at(-1)!;
  assert.equal(request.promptTokens, promptTokens);
  assert.equal(hashes.length, Math.floor(promptTokens / 4) * 2);
  assert.equal(
    byteText(stack.workers[0]!.works.at(-1)!.tokens),
    '<user>hi<assistant>',
    'what is hashed is what is sent',
  );
});

test('where several routers listen, bookings are told to all with their blocks', async () => {
  await stack.putInstance('router', 'router-2');
  const toldBefore = stack.life.length;
  await stack.chat();
  await until(() => stack.ended('completed') === 2);
  await stack.dropInstance('router', 'router-2');
  const events = stack.life.slice(toldBefore);
  assert.deepEqual(
    events.map((event) => event.kind),
    ['booked', 'firstToken', 'ended'],
  );
  const [booked] = events;
  assert.ok(booked?.kind === 'booked' && booked.blocks > 0);
});

test('a stream whose events all say how many tokens there are so far', async () => {
  const stream_options = { include_usage: true, continuous_usage_stats: true };
  const response = await stack.chat({ stream: true, stream_options, n: 2 });
  const events = eventsOf(await response.text());
  const last = events.pop();
  assert.deepEqual([last?.choices, last?.usage?.completion_tokens], [[], 6]);
  for (const index of [0, 1]) {
    const own = events.filter((event) => event.choices[0]?.index === index);
    const counts = own.map((event) => event.usage?.completion_tokens ?? 0);
    assert.ok(counts.length >= 2 && counts[0]! > 0);
    assert.deepEqual(
      counts,
      counts.toSorted((a, b) => a - b),
    );
    assert.equal(counts.at(-1), 3);
    assert.ok(own.every((event) => event.usage?.prompt_tokens === last?.usage?.prompt_tokens));
  }
});

test('a streamed chat: usage only when asked for, then [DONE]', async () => {
  for (const stream_options of [undefined, { include_usage: false }, { include_usage: true }]) {
    const response = await stack.chat({ stream: true, stream_options });
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    const events = eventsOf(await response.text());
    const withUsage = events.filter((event) => event.usage);
    assert.equal(withUsage.length, stream_options?.include_usage === true ? 1 : 0);
    if (withUsage.length === 1) {
      assert.equal(events.at(-1), withUsage[0]);
      assert.deepEqual(withUsage[0]?.choices, []);
      assert.equal(withUsage[0]?.usage?.completion_tokens, 3);
    }
    const choices = events.flatMap((event) => event.choices);
    assert.equal(choices.map((choice) => choice.delta.content ?? '').join(''), 'ok');
    assert.equal(choices.filter((choice) => choice.delta.role !== undefined).length, 1);
    assert.equal(choices.filter((choice) => choice.finish_reason !== null).length, 1);
    assert.equal(new Set(events.map((event) => `${event.id} ${event.created}`)).size, 1);
  }
});

test('candidates interleave under one id; seeds differ; each has its own booking', async () => {
  const worker = stack.workers[0]!;
  const script = worker.script;
  const streams: number[] = [];
  worker.script = async (_, { streamId }) => {
    streams.push(streamId);
    if (streams.length < 2) return;
    for (const piece of ['a', 'b', 'c']) {
      for (const stream of streams) worker.emit(stream, piece);
      await sleep(2);
    }
    for (const stream of streams) worker.emit(stream, '', 'length');
  };
  const routedBefore = stack.routed.length;
  const response = await stack.chat({ n: 2, stream: true, seed: 7, max_tokens: 5 });
  const events = eventsOf(await response.text());
  worker.script = script;
  assert.equal(stack.routed.length - routedBefore, 2);
  assert.deepEqual(
    worker.works
      .slice(-2)
      .map(({ header }) => header.sampling.seed)
      .toSorted((a, b) => (a ?? 0) - (b ?? 0)),
    [7, 8],
  );
  for (const index of [0, 1]) {
    const own = events.flatMap((event) => event.choices).filter((c) => c.index === index);
    assert.equal(own.map((choice) => choice.delta.content ?? '').join(''), 'abc');
    assert.deepEqual(
      own.map((choice) => choice.delta.role),
      ['assistant', ...own.slice(1).map(() => undefined)],
    );
    assert.deepEqual(own.map((c) => c.finish_reason).filter(Boolean), ['length']);
  }
  assert.equal(new Set(events.map((event) => event.id)).size, 1);
});

test('a seed of 64 bits reaches the worker, and the candidates have different ones', async () => {
  const body = `{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":9223372036854775807,"n":2}`;
  assert.equal((await stack.post(body)).status, 200);
  const works = stack.workers[0]!.works.slice(-2);
  const seeds = works.map(({ header }) => BigInt(JSON.stringify(header.sampling.seed)));
  assert.equal(new Set(seeds).size, 2);
  for (const seed of seeds) assert.ok(seed > 2n ** 62n && seed < 2n ** 63n, String(seed));
});

test('every request that ends is an event with its sizes and none of its text', async () => {
  const told = stack.context.events;
  const toldBefore = told.length;
  const answer = await answerOf(stack.chat({ max_tokens: 9 }));
  await until(() => told.length === toldBefore + 1);
  const { kind, subject, data } = told.at(-1)!;
  assert.deepEqual([kind, subject], ['request.completed', answer.id]);
  const { ttftMs, durationMs, ...sizes } = data;
  assert.ok(Number(ttftMs) >= 0 && Number(durationMs) >= Number(ttftMs));
  assert.deepEqual(sizes, {
    model: 'm',
    outcome: 'completed',
    candidates: 1,
    workerIds: [stack.workers[0]!.id],
    promptTokens: '<user>hi<assistant>'.length,
    cachedTokens: 3,
    outputTokens: 3,
  });
  stack.route = () => ({ kind: 'reject', code: 'ROUTER_QUEUE_FULL', message: 'full' });
  assert.equal((await stack.chat()).status, 429);
  stack.route = undefined;
  await until(() => told.length === toldBefore + 2);
  const { outcome, errorCode, outputTokens } = told.at(-1)!.data;
  assert.deepEqual([outcome, errorCode, outputTokens], ['rejected', 'queue_full', 0]);
});

test('requests that are refused before they are placed end as events too, with the code that the client sees', async () => {
  const told = stack.context.events;
  for (const [fields, status, expected] of [
    [{ max_tokens: -1 }, 400, { outcome: 'rejected', errorCode: 'invalid_value' }],
    [{ model: 'x' }, 404, { model: 'x', outcome: 'rejected', errorCode: 'model_not_found' }],
    [
      { max_tokens: 999_999 },
      400,
      { model: 'm', outcome: 'rejected', errorCode: 'context_length_exceeded' },
    ],
  ] as const) {
    const toldBefore = told.length;
    const response = await stack.chat(fields);
    assert.equal(response.status, status);
    assert.equal(told.length, toldBefore + 1, JSON.stringify(fields));
    const { kind, subject, data } = told.at(-1)!;
    assert.deepEqual([kind, subject], ['request.completed', response.headers.get('x-request-id')]);
    const { durationMs, ...rest } = data;
    assert.ok(Number(durationMs) >= 0);
    const sizes = {
      candidates: 0,
      workerIds: [],
      promptTokens: 0,
      cachedTokens: 0,
      outputTokens: 0,
    };
    assert.deepEqual(rest, { ...expected, ...sizes });
  }
});

test('several prompts, each with its own index', async () => {
  const body = { model: 'm', prompt: ['one', 'two'], n: 2 };
  const response = await stack.post(body, { path: '/v1/completions' });
  const answer = await answerOf(response);
  assert.equal(answer.object, 'text_completion');
  assert.deepEqual(
    answer.choices.map((choice) => [choice.index, choice.text, choice.finish_reason]),
    [0, 1, 2, 3].map((index) => [index, 'ok', 'stop']),
  );
  assert.equal(answer.usage.prompt_tokens, 6);
  assert.equal(answer.usage.completion_tokens, 12);
  assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 6);
  const ids = await answerOf(
    stack.post({ model: 'm', prompt: [65, 66] }, { path: '/v1/completions' }),
  );
  assert.equal(ids.usage.prompt_tokens, 2);
});

test('stop texts cut the same in both modes and stop the worker', async () => {
  const worker = stack.workers[0]!;
  const script = worker.script;
  const cases: [string[], string[], string, string][] = [
    [['beta gamma'], ['alpha ', 'beta', ' gam', 'ma delta'], 'alpha ', 'stop'],
    [['re', 'he'], ['there'], 't', 'stop'],
    [['he', 're'], ['there'], 't', 'stop'],
    [['beta'], ['be', 'tter'], 'better', 'length'],
    [['never ends'], ['never', ' en'], 'never en', 'length'],
  ];
  for (const [stop, pieces, text, reason] of cases) {
    worker.script = async (_, { streamId }) => {
      for (const piece of pieces) {
        worker.emit(streamId, piece);
        await sleep(1);
      }
      worker.emit(streamId, '', 'length');
    };
    const whole = await answerOf(stack.chat({ stop }));
    assert.equal(whole.choices[0]?.message.content, text);
    assert.equal(whole.choices[0]?.finish_reason, reason);
    const events = eventsOf(await (await stack.chat({ stop, stream: true })).text());
    const choices = events.flatMap((event) => event.choices);
    assert.equal(choices.map((choice) => choice.delta.content ?? '').join(''), text);
    assert.equal(choices.at(-1)?.finish_reason, reason);
    const { streamId } = worker.works.at(-1)!.header;
    if (reason === 'stop') await until(() => worker.cancelled.includes(streamId));
  }
  worker.script = script;
});

test('a character that spans tokens is never cut, an open one ends as U+FFFD', async () => {
  const worker = stack.workers[0]!;
  const script = worker.script;
  const bytes = [...new TextEncoder().encode('삼é👩')];
  worker.script = async (_, { streamId }) => {
    for (const byte of bytes) {
      worker.emit(streamId, [byte]);
      await sleep(1);
    }
    worker.emit(streamId, [0xf0], 'length');
  };
  const events = eventsOf(await (await stack.chat({ stream: true })).text());
  const pieces = events.map((event) => event.choices[0]?.delta.content).filter(Boolean);
  assert.deepEqual(pieces, ['삼', 'é', '👩', '\ufffd']);
  worker.script = script;
});

test('silence gets comment lines in streams only', async () => {
  const quiet = await ScriptedStack.start({
    env: { keepaliveMs: 100 },
    script: async (worker, { streamId }) => {
      await sleep(350);
      worker.emit(streamId, 'a');
      await sleep(350);
      worker.emit(streamId, 'b', 'stop');
    },
  });
  try {
    const body = await (await quiet.chat({ stream: true })).text();
    const [first, second = ''] = body.split('"content":"a"');
    assert.ok(first!.split(': keep-alive').length > 2, body);
    assert.ok(second.split(': keep-alive').length > 2, body);
    assert.equal(eventsOf(body).length, 3);
    assert.ok(body.endsWith('data: [DONE]\n\n'));
    assert.doesNotMatch(await (await quiet.chat()).text(), /keep-alive/);
  } finally {
    await quiet.stop();
  }
});

test('tokens that come in one turn leave in one write, one event each', async () => {
  const worker = stack.workers[0]!;
  const script = worker.script;
  worker.script = (_, { streamId }) => {
    for (const piece of 'abcdef') worker.emit(streamId, piece);
    worker.emit(streamId, [EOS], 'stop');
  };
  const response = await stack.chat({ stream: true });
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  assert.equal(new TextDecoder().decode(value).match(/"content":"[a-f]"/g)?.length, 6);
  await reader.cancel();
  worker.script = script;
});

test('request ids: safe ones are echoed and cut, others replaced; none becomes a chunk id', async () => {
  const echoed = async (id: string): Promise<string | null> =>
    (await stack.chat({}, { headers: { 'x-request-id': id } })).headers.get('x-request-id');
  assert.equal(await echoed('my.id_1-2'), 'my.id_1-2');
  assert.equal(await echoed('a'.repeat(1000)), 'a'.repeat(128));
  for (const bad of ['a b', '../x', 'a*', '>', '"']) assert.match((await echoed(bad))!, /^req-/);
  const same = await Promise.all(
    Array.from({ length: 20 }, () => stack.chat({}, { headers: { 'x-request-id': 'same' } })),
  );
  const ids = await Promise.all(same.map(async (r) => ((await r.json()) as { id: string }).id));
  assert.equal(new Set(ids).size, 20);
});

function byteText(tokens: Uint32Array): string {
  return new TextDecoder().decode(Uint8Array.from(tokens));
}
