import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Engine } from '@busbar/engine';
import type { Logger } from '@busbar/telemetry';
import { createAdminActions } from './admin-actions.ts';
import type { Worker } from './worker.ts';

/** An engine and a worker that only write down what is asked of them. */
function scripted(more: Partial<Engine> = {}) {
  const calls: string[] = [];
  const logged: string[] = [];
  const engine = {
    resetCache: () => Promise.resolve(void calls.push('reset')),
    ...more,
  } as unknown as Engine;
  const log = {
    info: (fields: object, text: string) => void logged.push(`${text} ${JSON.stringify(fields)}`),
    warn: (fields: object, text: string) => void logged.push(`${text} ${JSON.stringify(fields)}`),
  } as unknown as Logger;
  const state = { running: 0, staged: 0 };
  const worker = {
    get running() {
      return state.running;
    },
    get staged() {
      return state.staged;
    },
    pause: () => void calls.push('pause'),
    resume: () => void calls.push('resume'),
    idle: () => Promise.resolve(),
  } as unknown as Worker;
  return { calls, logged, state, actions: () => createAdminActions(engine, worker, log) };
}

test('only what the engine can do is there', async () => {
  const bare = scripted();
  assert.deepEqual(Object.keys(bare.actions()), ['/cache/reset']);
  await bare.actions()['/cache/reset']?.run({});
  assert.deepEqual(bare.calls, ['reset']);
});

test('adapters come and go by name; a body of another shape does nothing', async () => {
  const { calls, actions } = scripted({
    loadLora: (name, path) => Promise.resolve(void calls.push(`load ${name} ${path}`)),
    unloadLora: (name) => Promise.resolve(void calls.push(`unload ${name}`)),
  });
  await actions()['/lora/load']?.run({ name: 'a', path: '/adapters/a' });
  await actions()['/lora/unload']?.run({ name: 'a' });
  for (const body of [{}, { name: '' }, { name: 'a', path: 'b', more: 1 }, [], null]) {
    await assert.rejects(actions()['/lora/load']?.run(body) ?? Promise.resolve());
  }
  assert.deepEqual(calls, ['load a /adapters/a', 'unload a']);
});

test('what was done and what was refused is logged; a cache that the engine keeps is not called reset', async () => {
  const { logged, actions } = scripted({
    resetCache: () => Promise.reject(new Error('blocks are in use')),
    loadLora: () => Promise.resolve(),
    unloadLora: () => Promise.resolve(),
  });
  await actions()['/lora/load']?.run({ name: 'a', path: '/adapters/a' });
  await assert.rejects(
    actions()['/cache/reset']?.run({}) ?? Promise.resolve(),
    /blocks are in use/,
  );
  assert.deepEqual(logged, [
    'done by the admin port {"path":"/lora/load","body":{"name":"a","path":"/adapters/a"}}',
    'refused on the admin port {"path":"/cache/reset","reason":"blocks are in use"}',
  ]);
});

test('an engine sleeps only when nothing runs; until it wakes the worker takes nothing', async () => {
  const { calls, state, actions } = scripted({
    sleep: (level) => Promise.resolve(void calls.push(`sleep ${level}`)),
    wake: () => Promise.resolve(void calls.push('wake')),
  });
  state.staged = 1;
  await assert.rejects(actions()['/sleep']?.run({}) ?? Promise.resolve(), /KV of 1 waits/);
  assert.deepEqual(calls.splice(0), ['pause', 'resume']);
  state.staged = 0;
  await actions()['/sleep']?.run({});
  await actions()['/wake']?.run({});
  assert.deepEqual(calls, ['pause', 'sleep 1', 'wake', 'resume']);
});
