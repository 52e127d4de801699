import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { SplitStack } from './scripted-split.testing.ts';
import type { Script } from './scripted-stack.testing.ts';

const bodySchema = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

const failWith =
  (code: string, retryable: boolean): Script =>
  (worker, { streamId }) =>
    worker.emit(streamId, '', 'error', { error: { code, message: 'it says why', retryable } });

test('what only the engine finds wrong with a request is told as the mistake of the client, split or not', () =>
  SplitStack.with(async (stack) => {
    const { first } = stack;
    const split = stack.route;
    for (const route of [split, () => stack.place('decode-1')]) {
      stack.route = route;
      for (const [code, status, told] of [
        ['WORKER_BAD_REQUEST', 400, 'invalid_value'],
        ['WORKER_TOO_LONG', 400, 'context_length_exceeded'],
        ['OUT_OF_ORDER', 502, 'worker_fault'],
      ] as const) {
        first.script = failWith(code, false);
        const response = await stack.chat();
        const { error } = bodySchema.parse(await response.json());
        assert.deepEqual([response.status, error.code], [status, told]);
        assert.equal(error.message === 'it says why', status === 400);
        await stack.settled();
      }
    }
  }));

test('an engine that is full behind its acknowledgement is full: another takes the request, or it is 429', () =>
  SplitStack.with(async (stack) => {
    const { first, second } = stack;
    stack.route = ({ excluded = [] }) => {
      const next = [first, second].find(({ id }) => !excluded.includes(id));
      if (next !== undefined) return stack.place(next.id);
      return { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'none' };
    };
    first.script = failWith('WORKER_FULL', true);
    assert.equal((await stack.chat()).status, 200);
    second.script = failWith('WORKER_FULL', true);
    const response = await stack.chat();
    assert.equal(response.status, 429);
    assert.equal(bodySchema.parse(await response.json()).error.code, 'workers_full');
    await stack.settled();
  }));
