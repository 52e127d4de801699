import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { z } from 'zod';
import { engineContract } from '../contract.ts';
import { until } from '../until.testing.ts';
import {
  Heard,
  optionsFor,
  prompt,
  request,
  startFake,
  withEngine,
} from './engine-harness.testing.ts';
import type { FakeVllm } from './fake-vllm.testing.ts';
import { createVllmEngine } from './vllm-engine.ts';

const folder = mkdtempSync(join(tmpdir(), 'busbar-vllm-'));
let nextEndpoint = 1;
after(() => rmSync(folder, { recursive: true, force: true }));

engineContract(
  'vllm',
  async ({ emitKvEvents, ...sizes }) => {
    const endpoint = `ipc://${folder}/${nextEndpoint++}`;
    const fake = await startFake({
      ...sizes,
      ...(emitKvEvents ? { events: { endpoint, binds: true, topic: 'kv' } } : {}),
    });
    const kvEventEndpoints = [{ endpoint }];
    return createVllmEngine(
      optionsFor(fake, {
        kvEvents: emitKvEvents,
        engine: { kind: 'attach', url: fake.url, kvEventEndpoints },
      }),
    );
  },
  { kvBeforeTokens: false },
);

describe('what goes to vLLM', () => {
  test('token ids, always max_tokens, sampling, salt and adapter; over completions where generate is closed', async () => {
    for (const hasScaleOut of [true, false]) {
      await withEngine(
        async (engine, heard, fake) => {
          const sampling = { temperature: 0.5, topP: 0.9, topK: 5, seed: 7, logitBias: { 3: 1.5 } };
          const more = { sampling, cacheSalt: 's', lora: 'ad1', stopTokenIds: [9], minTokens: 2 };
          engine.submit(request(1, more));
          assert.equal((await heard.end(1)).finish, 'length');
          assert.equal(
            heard.of(1).reduce((sum, { tokens }) => sum + tokens.length, 0),
            8,
          );
          const body = z.looseObject({}).parse(fake.bodies[0]);
          const params = {
            max_tokens: 8,
            min_tokens: 2,
            ignore_eos: true,
            stop_token_ids: [9],
            temperature: 0.5,
            top_p: 0.9,
            top_k: 5,
            seed: 7,
            logit_bias: { 3: 1.5 },
          };
          const common = {
            model: 'ad1',
            stream: true,
            stream_options: { include_usage: true },
            cache_salt: 's',
          };
          const tokens = [...prompt(40)];
          assert.deepEqual(
            body,
            hasScaleOut
              ? { ...common, token_ids: tokens, sampling_params: { ...params, detokenize: false } }
              : { ...common, prompt: tokens, ...params, return_token_ids: true },
          );
        },
        { hasScaleOut },
      );
    }
  });

  test('what several streams produce in one turn of the loop is one step', () =>
    withEngine(async (engine, heard) => {
      for (let key = 1; key <= 16; key++) {
        engine.submit(request(key, { tokens: prompt(40, key), maxTokens: 50 }));
      }
      for (let key = 1; key <= 16; key++) await heard.end(key);
      assert.ok(heard.steps.length < heard.deltas.length / 2, `${heard.steps.length} steps`);
    }));

  test('the rate of prefill is told with the length of the prompts that it was measured at', () =>
    withEngine(async (engine, heard) => {
      engine.submit(request(1, { tokens: prompt(200, 1) }));
      await heard.end(1);
      const { prefillTokensPerMs, prefillStepTokens } = engine.load();
      assert.ok(prefillTokensPerMs > 0);
      assert.equal(prefillStepTokens, 200);
      engine.submit(request(2, { tokens: prompt(100, 2) }));
      await heard.end(2);
      assert.equal(engine.load().prefillStepTokens, 200, 'too short to tell a rate');
    }));

  test('a version outside the known range is a warning', async () => {
    const warnings: string[] = [];
    const onWarning = (message: string): void => void warnings.push(message);
    await withEngine(
      async (engine, heard, _fake, info) => {
        assert.equal(info.engineVersion, '0.99.1');
        engine.submit(request(1));
        assert.equal((await heard.end(1)).finish, 'length');
      },
      { version: '0.99.1' },
      { onWarning },
    );
    assert.match(warnings[0] ?? '', /0\.99\.1 is outside/);
  });

  test('a token route that is closed is a warning with the remedy, once', async () => {
    const warnings: string[] = [];
    const onWarning = (message: string): void => void warnings.push(message);
    const use = async (): Promise<void> => {};
    await withEngine(use, { hasScaleOut: false }, { onWarning });
    assert.equal(warnings.length, 1);
    assert.match(
      warnings[0] ?? '',
      /\/v1\/completions.*: start that vLLM with --enable-scale-out$/,
    );
    await withEngine(use, {}, { onWarning });
    assert.equal(warnings.length, 1);
  });

  test('adapters come and go, with the sentence of the engine when they cannot', () =>
    withEngine(async (engine, heard) => {
      await engine.loadLora?.('ad1', '/loras/ad1');
      assert.deepEqual(heard.infos.at(-1)?.loras, ['ad1']);
      await engine.unloadLora?.('ad1');
      assert.deepEqual(heard.infos.at(-1)?.loras, []);
      await assert.rejects(async () => engine.unloadLora?.('ad1'), /'ad1' cannot be found/);
    }));

  test('a cache that it keeps because blocks are in use is not called reset', async () => {
    await withEngine((engine) => engine.resetCache());
    await withEngine((engine) => assert.rejects(engine.resetCache(), /keeps its cache/), {
      keepsCache: true,
    });
  });
});

describe('a vLLM that misbehaves', () => {
  test('an "abort" with status 200 that nobody asked for may be retried', () =>
    withEngine(async (engine, heard, fake) => {
      fake.next = { kind: 'abort' };
      engine.submit(request(1));
      const end = await heard.end(1);
      assert.equal(end.finish, 'error');
      assert.equal(end.error?.retryable, true);
      assert.match(end.error?.message ?? '', /aborted the request by itself/);
    }));

  test('a stream that dies, ends without a reason or is no answer may be retried, and the engine goes on', () =>
    withEngine(async (engine, heard, fake) => {
      const bytes = (text: string): FakeVllm['next'] => ({
        kind: 'bytes',
        writes: [Buffer.from(text)],
      });
      const cases = [
        { kind: 'die' } as const,
        bytes('data: [DONE]\n\n'),
        bytes('data: {"choices":[{"token_ids":[1],"finish_reason":null}]}\n\n'),
        bytes('data: {"choices":[{"text":"a","finish_reason":null}]}\n\n'),
        bytes('data: <html>\n\n'),
        ...[-1, 1.5, 2 ** 32, '7'].map((token) =>
          bytes(
            `data: {"choices":[{"token_ids":[${JSON.stringify(token)}],"finish_reason":null}]}\n\n`,
          ),
        ),
        bytes(`data: {"choices":[{"token_ids":[1],"finish_reason":"stop"}]}\n\n`.repeat(2)),
        bytes('data: {"error":{"message":"boom","code":500}}\n\ndata: [DONE]\n\n'),
      ];
      for (const [at, next] of cases.entries()) {
        fake.next = next;
        engine.submit(request(at + 1));
        const end = await heard.end(at + 1);
        assert.equal(end.finish, 'error', `case ${at}`);
        assert.equal(end.error?.retryable, true, `case ${at}`);
      }
      engine.submit(request(99));
      assert.equal((await heard.end(99)).finish, 'length');
      assert.deepEqual(heard.said, []);
    }));

  test('an "abort" behind the first tokens is no full engine', () =>
    withEngine(async (engine, heard, fake) => {
      const event = (tokens: number[], finish: string | null): Buffer =>
        Buffer.from(
          `data: ${JSON.stringify({ error: null, choices: [{ token_ids: tokens, finish_reason: finish }] })}\n\n`,
        );
      fake.next = { kind: 'bytes', writes: [event([1], null), event([], 'abort')] };
      engine.submit(request(1));
      assert.equal((await heard.end(1)).error?.code, 'WORKER_FAULT');
      assert.deepEqual([...(heard.of(1)[0]?.tokens ?? [])], [1]);
    }));

  test('a reason that is said twice ends the answer once, with all its tokens', () =>
    withEngine(async (engine, heard, fake) => {
      const event = (tokens: number[]): Buffer =>
        Buffer.from(
          `data: ${JSON.stringify({ choices: [{ token_ids: tokens, finish_reason: 'stop' }] })}\n\n`,
        );
      fake.next = { kind: 'bytes', writes: [event([1]), event([])] };
      engine.submit(request(1));
      const { finish, tokens } = await heard.end(1);
      assert.deepEqual([finish, ...tokens], ['stop', 1]);
    }));

  test('more cached tokens than the prompt has are not believed', () =>
    withEngine(async (engine, heard, fake) => {
      const usage = { prompt_tokens_details: { cached_tokens: 999 } };
      const choices = [{ token_ids: [1], finish_reason: 'length' }];
      const events = [{ choices }, { choices: [], usage }];
      const writes = events.map((each) => Buffer.from(`data: ${JSON.stringify(each)}\n\n`));
      fake.next = { kind: 'bytes', writes };
      engine.submit(request(1));
      assert.equal((await heard.end(1)).cachedTokens, 40);
    }));

  test('mistakes of the request are final, with the sentence of the engine', () =>
    withEngine(async (engine, heard, fake) => {
      const body = JSON.stringify({
        error: { message: 'Token id 9 is out of vocabulary', code: 400 },
      });
      for (const [key, next] of [
        [1, { kind: 'bytes', status: 400, writes: [Buffer.from(body)] }],
        [2, { kind: 'bytes', writes: [Buffer.from(`data: ${body}\n\ndata: [DONE]\n\n`)] }],
      ] as const) {
        fake.next = next;
        engine.submit(request(key));
        const { error } = await heard.end(key);
        assert.equal(error?.code, 'WORKER_BAD_REQUEST');
        assert.equal(error?.retryable, false);
        assert.equal(error?.message, 'Token id 9 is out of vocabulary');
      }
    }));

  test('silence has a limit, before and behind the first token', () =>
    withEngine(
      async (engine, heard, fake) => {
        for (const [key, kind] of [
          [1, 'hang'],
          [2, 'stall'],
        ] as const) {
          fake.next = { kind };
          engine.submit(request(key, { maxTokens: 100 }));
          const { error } = await heard.end(key);
          assert.match(error?.message ?? '', /sent nothing for more than 200 ms/);
          assert.equal(error?.retryable, true);
        }
        assert.equal(engine.load().running + engine.load().waiting, 0);
      },
      {},
      { silenceMs: 200 },
    ));

  test('one that is gone is a fault, behind an error for each request', () =>
    withEngine(async (engine, heard, fake) => {
      fake.next = { kind: 'hang' };
      engine.submit(request(1));
      await until('the request is there', () => fake.bodies.length === 1);
      await fake.close();
      await until('the fault is told', () => heard.said.length > 0);
      assert.equal((await heard.end(1)).error?.retryable, true);
      assert.match(heard.said[0] ?? '', /^fault .*does not answer any more/);
      assert.equal(engine.submit(request(2)).kind, 'refused');
    }));

  test('one that came back with another block size is a fault; as the same, its cache is empty', async () => {
    for (const blockSize of [16, 32]) {
      await withEngine(async (engine, heard, fake) => {
        fake.startedAt = 1;
        fake.blockSize = blockSize;
        fake.next = { kind: 'die' };
        engine.submit(request(1));
        await until('what came back is told', () => heard.said.length > 0);
        const expected = blockSize === 16 ? /^reset$/ : /^fault .*blockSize 16 is now 32/;
        assert.match(heard.said[0] ?? '', expected);
      });
    }
  });

  test('one that does not say when it began is looked at after every sign of an end', async () => {
    const fake = await startFake();
    fake.startedAt = undefined;
    const engine = createVllmEngine(optionsFor(fake));
    const heard = new Heard();
    await engine.start(heard, new AbortController().signal);
    for (const [key, blockSize] of [
      [1, 16],
      [2, 32],
    ] as const) {
      assert.deepEqual(heard.said, []);
      fake.blockSize = blockSize;
      fake.next = { kind: 'die' };
      engine.submit(request(key));
      await heard.end(key);
    }
    await until('the fault is told', () => heard.said.length > 0);
    assert.match(heard.said[0] ?? '', /^fault .*blockSize 16 is now 32/);
    await engine.stop();
  });

  test('one that came back with KV of another form or model is a fault: its pairs were formed for the one before', async () => {
    for (const [name, value] of [
      ['cacheDtype', 'fp8'],
      ['kvLayout', 'HND'],
      ['modelPath', '/models/other'],
    ] as const) {
      await withEngine(async (engine, heard, fake) => {
        fake.startedAt = 1;
        fake[name] = value;
        fake.next = { kind: 'die' };
        engine.submit(request(1));
        await until('the fault is told', () => heard.said.length > 0);
        assert.match(heard.said[0] ?? '', new RegExp(`^fault .*${name} .+ is now ${value}`));
      });
    }
  });

  test('a server whose addresses of KV events cannot be read is used without', async () => {
    for (const eventSources of ['<html>', '{"0": 1}', '[]', '{}']) {
      const warnings: string[] = [];
      const onWarning = (message: string): void => void warnings.push(message);
      const fake = await startFake();
      fake.eventSources = eventSources;
      const engine = createVllmEngine(optionsFor(fake, { kvEvents: true, onWarning }));
      const info = await engine.start(new Heard(), new AbortController().signal);
      await engine.stop();
      assert.equal(info.kvEvents, false);
      assert.match(warnings.join(), /tells no address of KV events/);
    }
  });

  test('a start that meets nobody ends with the signal or the limit', async () => {
    const fake = await startFake();
    await fake.close();
    const engine = createVllmEngine(optionsFor(fake, { startTimeoutMs: 100 }));
    const never = new AbortController().signal;
    await assert.rejects(engine.start(new Heard(), never), /is not healthy after/);
    const stopped = createVllmEngine(optionsFor(fake));
    const signal = AbortSignal.timeout(50);
    await assert.rejects(stopped.start(new Heard(), signal));
  });
});
