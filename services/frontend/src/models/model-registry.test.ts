import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ScriptedStack, until } from '../scripted-stack.testing.ts';
import { byteTokenizer } from '../scripted-worker.testing.ts';
import { Instances } from './instances.ts';
import { ModelRegistry } from './model-registry.ts';

test('a model whose last worker drained is known for ten minutes, then it never was; a new worker brings it back', async () => {
  const stack = new ScriptedStack();
  const { context, controlBus } = stack;
  let nowMs = 0;
  const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };
  const deaf = { workerGone: () => {}, workerRestarted: () => {} };
  const instances = new Instances(deaf, clock, (error) => assert.fail(String(error)));
  const load = (): Promise<typeof byteTokenizer> => Promise.resolve(byteTokenizer);
  const registry = new ModelRegistry({ instances, load, threads: 0, log: context.log });
  try {
    const early = registry.lookup('m');
    assert.equal(early.kind === 'unavailable' && early.reason, 'no worker has announced a model');
    await stack.putModel('m');
    await stack.putInstance('router', 'router-1');
    await stack.putInstance('decode', 'decode-1', 'm', { loras: ['sql'] });
    await instances.watch(await controlBus.bucket(context.buckets.instances));
    await registry.watch(await controlBus.bucket(context.buckets.models));
    const kind = (name = 'm'): string => registry.lookup(name).kind;
    await until(() => kind() === 'ready' && kind('sql') === 'ready');
    await stack.putInstance('decode', 'decode-1', 'm', { loras: ['sql'] }, 'draining');
    await until(() => kind() === 'unavailable');
    assert.equal(registry.faults().length, 1);
    await stack.dropInstance('decode', 'decode-1');
    await until(() => registry.faults().length === 0);
    nowMs = 600_000;
    assert.equal(kind(), 'unavailable');
    nowMs = 600_001;
    assert.equal(kind(), 'unknown');
    await stack.putInstance('decode', 'decode-1', 'm');
    await until(() => kind() === 'ready');
    assert.equal(kind('sql'), 'unknown');
  } finally {
    instances.stop();
    await registry.stop();
    await context.bus.close();
    await controlBus.close();
  }
});
