import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRng } from '@busbar/base';
import { MemoryNetwork } from '@busbar/bus';
import { createSubjects, encodeTokenBatch } from '@busbar/protocol';
import { Registry } from 'prom-client';
import { createFrontendMetrics } from '../metrics.ts';
import { Streams } from './streams.ts';

const WORKERS = 4_096;

test('workers that come and go under new names make no tokens of another count as lost', async () => {
  const network = new MemoryNetwork();
  const [bus, worker] = [network.connect(), network.connect()];
  const subjects = createSubjects('test');
  const suspected: string[] = [];
  let nowMs = 0;
  const streams = new Streams({
    bus,
    subjects,
    frontendId: 'f1',
    clock: { monotonicMs: () => ++nowMs, wallMs: () => 0 },
    rng: createRng(1),
    metrics: createFrontendMetrics(
      new Registry(),
      () => 0,
      () => 0,
    ),
    host: {
      heard: () => {},
      batchesLost: (workerId) => void suspected.push(workerId),
      tokensLost: () => {},
      cancelStrays: () => {},
    },
  });
  const send = (workerId: string, sequence: number): void => {
    const delta = { streamId: 1, position: 0, tokens: Uint32Array.of(1), finish: 'stop' as const };
    worker.publish(
      subjects.tokens('f1', workerId),
      encodeTokenBatch({ sequence, deltas: [delta] }),
    );
  };
  send('w0', 1);
  for (let i = 1; i < WORKERS; i++) send(`w${i}`, 1);
  send('w0', 2);
  send('new', 1);
  send('w0', 3);
  send('new', 2);
  await worker.flush();
  assert.deepEqual(suspected, []);
  send('w0', 5);
  send('w1', 2);
  await worker.flush();
  assert.deepEqual(suspected, ['w0', 'w1'], 'the oldest is forgotten, and asked how far it is');
  streams.stop();
  await bus.close();
  await worker.close();
});
