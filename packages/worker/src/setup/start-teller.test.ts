import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { createTestContext } from '@busbar/service/testing';
import { StartTeller } from './start-teller.ts';

test('a phase that lasts shows its seconds to who asks, and again in the log, until the engine is ready', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const shown: string[] = [];
  let nowMs = 0;
  const context = {
    ...createTestContext('decode', new MemoryNetwork().connect()),
    clock: { monotonicMs: () => nowMs, wallMs: () => 0 },
    reportStart: (phase: string) => void shown.push(phase),
  };
  const teller = new StartTeller(context);
  const pass = (seconds: number): void => {
    for (let i = 0; i < seconds; i++) {
      nowMs += 1_000;
      t.mock.timers.tick(1_000);
    }
  };
  teller.onProgress({ phase: 'health', elapsedMs: 200, detail: 'waiting' });
  pass(31);
  assert.equal(shown.at(-1), 'vllm health: waiting (31 s)');
  assert.equal(context.lines.length, 3, 'at the start of the phase and every 15 s');
  teller.onProgress({ phase: 'ready', elapsedMs: 31_500, detail: '1,536 tokens of KV' });
  pass(60);
  assert.equal(shown.at(-1), 'vllm ready: 1,536 tokens of KV (32 s)');
  assert.equal(context.lines.length, 4);
});
