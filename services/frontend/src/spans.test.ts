import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError } from '@busbar/base';
import { ScriptedStack, until } from './scripted-stack.testing.ts';
import { byteTokenizer } from './scripted-worker.testing.ts';

test('each stage of a request ends its span, whatever becomes of the request', async (t) => {
  const stack = await ScriptedStack.start();
  const ended: string[] = [];
  const open: string[] = [];
  stack.context.tracer = {
    isEnabled: true,
    start(name) {
      open.push(name);
      return {
        traceparent: undefined,
        set() {},
        end(error) {
          open.splice(open.indexOf(name), 1);
          ended.push(error === undefined ? name : `${name} failed`);
        },
      };
    },
    shutdown: () => Promise.resolve(),
  };
  try {
    assert.equal((await stack.chat()).status, 200);
    await until(() => open.length === 0);
    assert.deepEqual(ended.splice(0).toSorted(), [
      'frontend.prepare',
      'frontend.request',
      'frontend.route',
      'frontend.work',
    ]);
    t.mock.method(byteTokenizer, 'renderChat', () => {
      throw new AppError('TOKENIZER_TEMPLATE', 'roles must alternate');
    });
    assert.equal((await stack.chat()).status, 400);
    await until(() => open.length === 0);
    assert.deepEqual(ended.toSorted(), ['frontend.prepare failed', 'frontend.request']);
  } finally {
    await stack.stop();
  }
});
