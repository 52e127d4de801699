import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryBus } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import { until } from '../scripted-stack.testing.ts';
import type { StreamOwner } from './stream-owner.ts';
import { WorkerWatch } from './worker-watch.ts';

test('a worker is asked for a sign of life half a second after its last token, whatever its heartbeat', async () => {
  let nowMs = 0;
  let questions = 0;
  const lost: string[] = [];
  const bus = createMemoryBus();
  const watch = new WorkerWatch({
    bus,
    clock: { monotonicMs: () => nowMs, wallMs: () => nowMs },
    host: {
      signOfLife() {
        questions++;
        return Promise.resolve('gone');
      },
      positions: () => Promise.resolve(undefined),
    },
  });
  const owner: StreamOwner = {
    workerId: 'decode-1',
    streamId: 1,
    promptTokens: 10,
    position: 0,
    lastDeltaMs: 0,
    suspectSinceMs: 0,
    isFetching: false,
    accept() {},
    lose: (error) => lost.push(error.code),
    fail() {},
  };
  try {
    watch.attach('decode-1', owner);
    nowMs = limit('tokenSilenceMs') + 1;
    await until(() => lost.length === 1);
    assert.deepEqual(lost, ['FRONTEND_WORKER_LOST']);
    assert.equal(questions, 1);
    assert.ok(limit('tokenSilenceMs') <= 500);
  } finally {
    watch.stop();
    await bus.close();
  }
});
