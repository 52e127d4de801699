import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import type { EngineRequest } from '../../port.ts';
import { prompt, request, withEngine } from '../engine-harness.testing.ts';
import { findStuck } from './engine-watch.ts';
import { findOvertaken, markOvertaken } from './overtaken.ts';
import { oneToken, silentHost } from './run.testing.ts';
import { Run } from './run.ts';

const SILENCE_MS = 100;
const kvSource: EngineRequest['kvSource'] = {
  prefillWorkerId: 'p',
  validForMs: 1,
  transfer: {
    protocol: 'tcp',
    params: { transferId: 't', endpoint: 'h:1', blocks: 1, blockBytes: 64 },
  },
};

let nowMs = 0;
beforeEach(() => void (nowMs = 0));

function submit(tokens: number, more: Partial<EngineRequest> = {}): Run {
  return new Run(request(1, { tokens: prompt(tokens), ...more }), silentHost, () => nowMs);
}

/** The whole answer of a vLLM that tells its cached tokens, unless they are undefined. */
function answer(run: Run, cachedTokens: number | undefined): Run {
  run.onChunk(oneToken);
  const details = cachedTokens === undefined ? null : { cached_tokens: cachedTokens };
  const usage = { choices: [], usage: { prompt_tokens_details: details } };
  run.onChunk(Buffer.from('data: {"choices":[{"token_ids":[8],"finish_reason":"stop"}]}\n\n'));
  run.onChunk(Buffer.from(`data: ${JSON.stringify(usage)}\n\ndata: [DONE]\n\n`));
  assert.ok(run.isOver);
  return run;
}

suite('a request that others overtake', () => {
  test('ends when it has waited for twice the silence of an engine', () => {
    const waiting = submit(40);
    nowMs = 1;
    const later = answer(submit(40), 0);
    markOvertaken([waiting, later], later);
    nowMs = 2 * SILENCE_MS - 1;
    assert.deepEqual(findOvertaken([waiting], nowMs, SILENCE_MS), []);
    nowMs = 2 * SILENCE_MS;
    assert.deepEqual(findOvertaken([waiting], nowMs, SILENCE_MS), [waiting]);
    waiting.onChunk(oneToken);
    assert.deepEqual(findOvertaken([waiting], nowMs, SILENCE_MS), [], 'it came after all');
  });

  test('is not one that is only queued, longer, or may have to compute more', () => {
    const earlier = submit(40);
    nowMs = 1;
    const waiting = submit(40);
    const same = answer(submit(40), 0);
    nowMs = 2;
    const shorter = answer(submit(39), 0);
    const cached = answer(submit(400), 361);
    const silent = answer(submit(400), undefined);
    const fetched = answer(submit(400, { kvSource }), 0);
    const failed = submit(400);
    failed.end('error');
    for (const ended of [answer(earlier, 0), same, shorter, cached, silent, fetched, failed]) {
      markOvertaken([waiting], ended);
      assert.equal(waiting.isOvertaken, false);
    }
    markOvertaken([waiting], answer(submit(400), 360));
    assert.equal(waiting.isOvertaken, true);
  });

  test('is not one that waits for KV', () => {
    const fetching = submit(40, { kvSource });
    fetching.beginFetch(10_000);
    nowMs = 1;
    markOvertaken([fetching], answer(submit(40), 0));
    assert.deepEqual(findOvertaken([fetching], 1_000, SILENCE_MS), []);
  });

  test('is not one that has begun: that has a limit of its own, whatever others get', () => {
    const [begun, other] = [submit(40), submit(40)];
    begun.onChunk(oneToken);
    nowMs = SILENCE_MS - 1;
    other.onChunk(oneToken);
    assert.deepEqual(findStuck([begun, other], nowMs, SILENCE_MS), []);
    nowMs = SILENCE_MS;
    assert.deepEqual(findStuck([begun, other], nowMs, SILENCE_MS), [begun]);
    assert.deepEqual(findOvertaken([begun], 10_000, SILENCE_MS), []);
  });
});

test('an engine that forgets one request: it ends with an error that may be retried, others go on', () =>
  withEngine(
    async (engine, heard, fake) => {
      fake.next = { kind: 'hang' };
      engine.submit(request(1));
      let key = 1;
      const submitNext = (): void => {
        key++;
        engine.submit(request(key, { tokens: prompt(48, key) }));
      };
      // One follows the other, so that there is never a moment without tokens.
      const onStep = heard.onStep.bind(heard);
      heard.onStep = (step) => {
        onStep(step);
        if (step.deltas.some((delta) => delta.key === key && delta.finish !== 'none')) submitNext();
      };
      submitNext();
      const { error } = await heard.end(1);
      assert.deepEqual([error?.code, error?.retryable], ['WORKER_FAULT', true]);
      assert.match(error!.message, /while later ones/);
      assert.equal(heard.of(2).at(-1)?.finish, 'length');
      assert.deepEqual(heard.said, []);
    },
    {},
    { silenceMs: 1_000 },
  ));
