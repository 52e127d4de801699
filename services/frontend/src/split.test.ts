import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LifeEvent } from '@busbar/protocol';
import type { Place } from './placement/bookings.ts';
import { refuse, SplitStack } from './scripted-split.testing.ts';
import { answerOf, eventsOf, type Script, until } from './scripted-stack.testing.ts';

const nothing: Script = () => {};

test('prefill elsewhere, then decode: one prompt, one answer, the cache of the prefill', () =>
  SplitStack.with(async (stack) => {
    const { prefiller, first } = stack;
    prefiller.isLateWithCached = true;
    prefiller.script = (worker, { streamId }) => worker.stage(streamId, { cachedTokens: 8 });
    const fields = { max_completion_tokens: 200, min_tokens: 5, stop: ['q'], seed: 3, n: 2 };
    const answer = await answerOf(stack.chat({ ...fields, cache_salt: 's', stop_token_ids: [7] }));
    const promptTokens = '<user>hi<assistant>'.length;
    assert.deepEqual(answer.usage, {
      prompt_tokens: promptTokens,
      completion_tokens: 6,
      total_tokens: promptTokens + 6,
      prompt_tokens_details: { cached_tokens: 8 },
    });
    assert.deepEqual(
      answer.choices.map((choice) => choice.message.content),
      ['ok', 'ok'],
    );
    assert.equal(prefiller.works.length, 2, 'as many transfers as candidates');
    for (const { header, tokens } of prefiller.works) {
      const { streamId, decisionId, frontendId, ...rest } = header;
      assert.ok(streamId > 0 && frontendId === 'frontend-test');
      assert.deepEqual(rest, {
        model: 'm',
        promptTokens,
        maxTokens: 1,
        sampling: { temperature: 0 },
        cacheSalt: 's',
        stageKv: { transferId: decisionId },
      });
      assert.equal(tokens.length, promptTokens);
    }
    for (const { header } of first.works) {
      assert.equal(header.maxTokens, 200);
      assert.equal(header.minTokens, 5);
      assert.deepEqual(header.stopTokenIds, [7]);
      assert.equal(header.kvSource?.prefillWorkerId, 'prefill-1');
      assert.ok(header.kvSource.validForMs > 15_000 && header.kvSource.validForMs <= 20_000);
    }
    await stack.settled();
    assert.deepEqual(prefiller.cancelled, [], 'fetched KV is the engines’ matter');
    const cached = (id: string): unknown[] =>
      stack.life
        .filter((event) => event.decisionId === id && event.kind !== 'booked')
        .map((event) => (event.kind === 'booked' ? undefined : event.cachedTokens));
    assert.deepEqual(cached('d1'), [undefined, undefined], 'fetched blocks are no hits');
    assert.deepEqual(cached('d2'), [8, undefined], 'told once, as soon as it is known');
    assert.equal(await stack.figure('split_requests_total', { outcome: 'fetched' }), 2);
    assert.match(await stack.metrics(), /prefill_leg_seconds_count\{[^}]*\} 2/);
  }));

test('other routers hear of both bookings, each as what it is', () =>
  SplitStack.with(async (stack) => {
    await stack.putInstance('router', 'router-2');
    await until(() => stack.frontend.checks().every((check) => check.ok));
    assert.equal((await stack.chat()).status, 200);
    await stack.settled();
    const booked = stack.life.filter(
      (event): event is Extract<LifeEvent, { kind: 'booked' }> => event.kind === 'booked',
    );
    assert.deepEqual(
      booked.map(({ decisionId, workerId, isFetched, blocks }) => [
        decisionId,
        workerId,
        isFetched,
        blocks,
      ]),
      [
        ['d1', 'decode-1', true, 4],
        ['d2', 'prefill-1', undefined, 4],
      ],
    );
    assert.deepEqual(
      booked.map((event) => event.maxTokens > 1),
      [true, false],
    );
  }));

test('an engine that tells its cached tokens with its last delta: usage has them, routers too', () =>
  SplitStack.with(async (stack) => {
    const { prefiller, first } = stack;
    stack.route = () => stack.place('decode-1');
    first.isLateWithCached = true;
    first.script = (worker, { streamId }) => {
      worker.emit(streamId, 'a');
      worker.emit(streamId, 'b', 'length', { cachedTokens: 5 });
    };
    const answer = await answerOf(stack.chat());
    assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 5);
    await stack.settled();
    assert.deepEqual(
      stack.life.map((event) => (event.kind === 'booked' ? [] : [event.kind, event.cachedTokens])),
      [
        ['firstToken', undefined],
        ['ended', 5],
      ],
    );
    assert.equal(prefiller.works.length, 0);
  }));

test('a prefill that fails is done by the decode worker at once, and counted', async () => {
  const failures: [string, (stack: SplitStack) => void | Promise<void>][] = [
    ['WORKER_FULL', ({ prefiller }) => void (prefiller.ack = refuse('WORKER_FULL'))],
    ['WORKER_BAD_REQUEST', ({ prefiller }) => void (prefiller.ack = refuse('WORKER_BAD_REQUEST'))],
    ['FRONTEND_WORKER_LOST', ({ prefiller }) => prefiller.kill()],
    [
      'WORKER_FAULT',
      ({ prefiller }) => {
        prefiller.script = (worker, { streamId }) =>
          worker.emit(streamId, '', 'error', {
            error: { code: 'X', message: 'x', retryable: false },
          });
      },
    ],
    [
      'FRONTEND_WORKER_LOST',
      ({ prefiller }) => {
        prefiller.script = (worker, { streamId }) => worker.emit(streamId, '', 'cancelled');
      },
    ],
    [
      'FRONTEND_NOT_STAGED',
      ({ prefiller }) => {
        prefiller.script = (worker, { streamId }) => worker.emit(streamId, 'p', 'stop');
      },
    ],
    [
      'FRONTEND_TOKENS_LOST',
      ({ prefiller }) => {
        prefiller.script = (worker, { streamId }) =>
          worker.send('frontend-test', [
            { streamId, position: 4, tokens: Uint32Array.of(1), finish: 'length' },
          ]);
      },
    ],
  ];
  for (const [reason, arrange] of failures) {
    await SplitStack.with(async (stack) => {
      await arrange(stack);
      const answer = await answerOf(stack.chat());
      assert.equal(answer.choices[0]?.message.content, 'ok', reason);
      assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 3, 'its own');
      assert.equal(stack.first.works.length, 1);
      assert.equal(stack.first.works[0]?.header.kvSource, undefined);
      assert.equal(stack.routed.length, 1, 'the booking of the decode worker stays');
      await stack.settled();
      assert.equal(await stack.figure('split_fallbacks_total', { reason }), 1, reason);
      assert.equal(await stack.figure('split_requests_total', { outcome: 'local' }), 1);
    });
  }
});

test('where nobody else may prefill its failure ends the request, and the decode worker gets nothing', async () => {
  const place = (stack: SplitStack): Place => stack.split('decode-1', 'prefill-1', 'fail');
  for (const [ack, status, code] of [
    [refuse('WORKER_DRAINING'), 503, 'prefill_failed'],
    [refuse('WORKER_BAD_REQUEST', false), 400, 'invalid_value'],
  ] as const) {
    await SplitStack.with(async (stack) => {
      stack.route = () => place(stack);
      stack.prefiller.ack = ack;
      const response = await stack.chat({ stream: true });
      assert.equal(response.status, status);
      assert.equal((await answerOf(response)).error.code, code);
      await stack.settled();
      assert.equal(stack.first.works.length + stack.second.works.length, 0);
    });
  }
});

test('KV that is lost on its way: once more, on one worker for everything; or an error', () =>
  SplitStack.with(async (stack) => {
    const lose: Script = (worker, { streamId, kvSource }) => {
      if (kvSource === undefined) worker.emit(streamId, 'ok', 'length');
      else {
        worker.emit(streamId, '', 'error', {
          error: { code: 'WORKER_KV_LOST', message: 'digest', retryable: true },
        });
      }
    };
    stack.first.script = lose;
    const answer = await answerOf(stack.chat());
    assert.equal(answer.choices[0]?.message.content, 'ok');
    assert.equal(answer.usage.prompt_tokens_details.cached_tokens, 3);
    assert.deepEqual(
      stack.routed.map(({ request }) => [request.isWhole, request.excluded]),
      [
        [undefined, undefined],
        [true, undefined],
      ],
    );
    await stack.settled();
    assert.equal(stack.prefiller.cancelled.length, 1);
    assert.equal(await stack.figure('split_fallbacks_total', { reason: 'WORKER_KV_LOST' }), 1);
    // A worker that does not know this protocol, and one that cannot use what the prefill engine answered.
    for (const code of ['WORKER_WRONG_KIND', 'WORKER_KV_LOST'] as const) {
      stack.first.ack = ({ kvSource }) =>
        kvSource === undefined ? { kind: 'accepted' } : refuse(code)();
      assert.equal((await stack.chat()).status, 200, code);
      assert.deepEqual(stack.routed.at(-1)?.request.isWhole, true);
    }
    stack.route = () => stack.split('decode-1', 'prefill-1', 'fail');
    const strict = await stack.chat();
    assert.equal(strict.status, 503);
    assert.equal((await answerOf(strict)).error.code, 'prefill_failed');
    await stack.settled();
  }));

test('a prefill worker that hangs or vanishes is noticed as any other', () =>
  SplitStack.with(async (stack) => {
    stack.prefiller.script = nothing;
    const waiting = stack.chat();
    await until(() => stack.prefiller.works.length === 1);
    await stack.prefiller.kill();
    const killed = performance.now();
    assert.equal((await waiting).status, 200);
    assert.ok(performance.now() - killed < 1_500);
    await stack.settled();
  }));

test('KV that comes when nobody waits for it any more is given up', () =>
  SplitStack.with(async (stack) => {
    const { prefiller } = stack;
    for (const streamId of [71, 72]) {
      prefiller.stage(streamId);
      await until(() => prefiller.cancelled.includes(streamId));
    }
    assert.equal(prefiller.staged.size, 0);
  }));

test('a client that leaves frees both legs at every moment', async () => {
  const fetching: Script = nothing;
  const moments: [string, (stack: SplitStack) => void, (stack: SplitStack) => boolean][] = [
    [
      'the prefill is offered',
      ({ prefiller }) => void (prefiller.ack = () => undefined),
      ({ prefiller }) => prefiller.asked === 1,
    ],
    [
      'the prefill runs',
      ({ prefiller }) => void (prefiller.script = nothing),
      ({ prefiller }) => prefiller.works.length === 1,
    ],
    [
      'the decode worker is asked',
      ({ first }) => void (first.ack = () => undefined),
      ({ first }) => first.asked === 1,
    ],
    [
      'the KV is fetched',
      ({ first }) => void (first.script = fetching),
      ({ first }) => first.works.length === 1,
    ],
    [
      'tokens flow',
      (stack) => {
        stack.first.script = (worker, header) => {
          stack.fetch(header);
          worker.emit(header.streamId, 'a');
        };
      },
      ({ first }) => first.works.length === 1,
    ],
  ];
  for (const [moment, arrange, isThere] of moments) {
    await SplitStack.with(async (stack) => {
      arrange(stack);
      const gone = new AbortController();
      const running = stack.chat({}, { signal: gone.signal }).catch(() => undefined);
      await until(() => isThere(stack));
      gone.abort();
      await running;
      await stack.settled();
      assert.equal(stack.ended('failed'), 0, moment);
      assert.ok(stack.ended('cancelled') >= 1, moment);
    });
  }
});

test('a server that goes down while a prefill runs frees it', () =>
  SplitStack.with(async (stack) => {
    stack.prefiller.script = nothing;
    const running = stack.chat();
    await until(() => stack.prefiller.works.length === 1);
    await stack.frontend.drain(AbortSignal.timeout(50));
    assert.equal((await running).status, 503);
    await stack.settled();
    assert.equal(stack.prefiller.cancelled.length, 1);
  }));

test('a long prompt and large parameters of its transfer: no message is above the limit', () =>
  SplitStack.with(async (stack) => {
    const blocks = Array.from({ length: 30_000 }, (_, i) => 100_000 + i);
    stack.prefiller.script = (worker, { streamId }) =>
      worker.stage(streamId, {
        transfer: {
          protocol: 'nixl',
          params: {
            do_remote_prefill: true,
            do_remote_decode: false,
            remote_block_ids: [blocks],
            remote_engine_id: 'e',
            remote_request_id: 'r',
            remote_host: 'h',
            remote_port: 5600,
            tp_size: 1,
          },
        },
      });
    const prompt = 'x'.repeat(400_000);
    const answer = await answerOf(
      stack.post({ model: 'm', prompt, max_tokens: 5 }, { path: '/v1/completions' }),
    );
    assert.equal(answer.choices[0]?.text, 'ok');
    const { header, tokens } = stack.first.works[0]!;
    assert.equal(tokens.length, 400_000);
    assert.ok(tokens.every((token) => token === 0x78));
    assert.equal(header.part, 2);
    const { transfer } = header.kvSource!;
    assert.deepEqual(transfer.protocol === 'nixl' && transfer.params['tp_size'], 1, 'verbatim');
    assert.ok(stack.first.largestBytes <= 900_000 && stack.first.largestBytes > 600_000);
    await stack.settled();
    const events = await stack.chat({ stream: true });
    assert.equal(eventsOf(await events.text()).at(-1)?.choices[0]?.finish_reason, 'stop');
  }));
