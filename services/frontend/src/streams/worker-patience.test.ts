import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import type { StreamOwner } from './stream-owner.ts';
import { WorkerWatch } from './worker-watch.ts';

const SWEEP_MS = 250;

/** How long a worker that answers, and sends no token, has for a stream. */
async function patienceMs(t: TestContext, stream: Partial<StreamOwner>): Promise<number> {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const bus = new MemoryNetwork().connect();
  let nowMs = 0;
  const lost: string[] = [];
  const owner: StreamOwner = {
    workerId: 'w1',
    streamId: 1,
    promptTokens: 10,
    position: 0,
    lastDeltaMs: 0,
    suspectSinceMs: 0,
    isFetching: false,
    accept: () => {},
    lose: ({ message }) => void lost.push(message),
    fail: () => {},
    ...stream,
  };
  const watch = new WorkerWatch({
    bus,
    clock: { monotonicMs: () => nowMs, wallMs: () => 0 },
    host: { signOfLife: async () => 'alive', positions: async () => undefined },
  });
  watch.attach('w1', owner);
  while (lost.length === 0 && nowMs < 1_000_000) {
    nowMs += SWEEP_MS;
    t.mock.timers.tick(SWEEP_MS);
    await Promise.resolve();
  }
  watch.stop();
  await bus.close();
  t.mock.timers.reset();
  assert.match(lost[0] ?? '', /sends no tokens/);
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
