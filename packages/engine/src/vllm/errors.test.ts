import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRefusal, requestError } from './errors.ts';
import { readErrorBody } from './serving/answer.ts';

/** The body of vLLM's answer to a model that it does not have. */
const noModel = (name: string): string =>
  JSON.stringify({
    error: {
      message: `The model \`${name}\` does not exist.`,
      type: 'NotFoundError',
      param: 'model',
      code: 404,
    },
  });
const NO_PATH = '{"detail":"Not Found"}';

test('a 404 is of the adapter only where the request named one and the engine speaks of it', () => {
  for (const [lora, body, code] of [
    ['sql', noModel('sql'), 'WORKER_NO_MODEL'],
    ['sql', noModel('base'), 'WORKER_FAULT'],
    ['sql', NO_PATH, 'WORKER_FAULT'],
    [undefined, noModel('base'), 'WORKER_FAULT'],
    [undefined, NO_PATH, 'WORKER_FAULT'],
  ] as const) {
    const answer = readErrorBody(404, body);
    const error = requestError(answer, { lora, isFetching: false, hasBegun: false });
    assert.deepEqual([error.code, error.retryable], [code, true], body);
    assert.ok(isRefusal(answer));
  }
});

test('mistakes of the request are final, a full engine is full, a 500 during a fetch is the loss of KV', () => {
  for (const [status, isFetching, code, retryable] of [
    [400, false, 'WORKER_BAD_REQUEST', false],
    [413, true, 'WORKER_BAD_REQUEST', false],
    [503, true, 'WORKER_FULL', true],
    [500, true, 'WORKER_KV_LOST', true],
    [500, false, 'WORKER_FAULT', true],
  ] as const) {
    const answer = readErrorBody(status, '{"error":{"message":"no"}}');
    const error = requestError(answer, { lora: 'sql', isFetching, hasBegun: false });
    assert.deepEqual([error.code, error.retryable], [code, retryable], `${status}`);
    assert.equal(isRefusal(answer), status !== 500);
  }
  const stopping = { message: 'it is stopping', status: 503 };
  const late = requestError(stopping, { lora: undefined, isFetching: false, hasBegun: true });
  assert.deepEqual([late.code, late.retryable], ['WORKER_FAULT', true]);
});
