import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { AppError } from '@busbar/base';
import { createMemoryBus } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import { until } from '../scripted-stack.testing.ts';
import type { StreamOwner } from './stream-owner.ts';
import { WorkerWatch } from './worker-watch.ts';

const SWEEP_MS = 250;

/** A stream of worker `w1`; `lost` hears the error that ends it. */
function streamOf(lost: AppError[], change: Partial<StreamOwner> = {}): StreamOwner {
  return {
    workerId: 'w1',
    streamId: 1,
    promptTokens: 10,
    position: 0,
    lastDeltaMs: 0,
    suspectSinceMs: 0,
    isFetching: false,
    accept() {},
    lose: (error) => void lost.push(error),
    fail() {},
    ...change,
  };
}

test('a worker is asked for a sign of life half a second after its last token, whatever its heartbeat', async () => {
  let nowMs = 0;
  let questions = 0;
  const lost: AppError[] = [];
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
  try {
    watch.attach('w1', streamOf(lost));
    nowMs = limit('tokenSilenceMs') + 1;
    await until(() => lost.length === 1);
    assert.deepEqual(
      lost.map(({ code }) => code),
      ['FRONTEND_WORKER_LOST'],
    );
    assert.equal(questions, 1);
    assert.ok(limit('tokenSilenceMs') <= 500);
  } finally {
    watch.stop();
    await bus.close();
  }
});

/** How long a worker that answers, and sends no token, has for a stream. */
async function patienceMs(t: TestContext, stream: Partial<StreamOwner>): Promise<number> {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const bus = createMemoryBus();
  let nowMs = 0;
  const lost: AppError[] = [];
  const watch = new WorkerWatch({
    bus,
    clock: { monotonicMs: () => nowMs, wallMs: () => 0 },
    host: { signOfLife: async () => 'alive', positions: async () => undefined },
  });
  watch.attach('w1', streamOf(lost, stream));
  while (lost.length === 0 && nowMs < 1_000_000) {
    nowMs += SWEEP_MS;
    t.mock.timers.tick(SWEEP_MS);
    await Promise.resolve();
  }
  watch.stop();
  await bus.close();
  t.mock.timers.reset();
  assert.match(lost[0]?.message ?? '', /sends no tokens/);
  return nowMs;
}

test('a worker without tokens has a minute, and more for a long prompt or a fetch until the first of them', async (t) => {
  const silenceMs = limit('streamSilenceMs');
  for (const [stream, moreMs] of [
    [{}, 10],
    [{ promptTokens: 100_000 }, 100_000],
    [{ promptTokens: 100_000, position: 1 }, 0],
    [{ isFetching: true }, limit('kvFetchMs')],
    [{ isFetching: true, promptTokens: 200_000 }, 200_000],
  ] as const) {
    const tookMs = await patienceMs(t, stream);
    const overMs = tookMs - silenceMs - moreMs;
    assert.ok(overMs > 0 && overMs <= SWEEP_MS, `${JSON.stringify(stream)}: ${tookMs}`);
  }
});
