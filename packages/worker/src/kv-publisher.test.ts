import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeKvBatch, type KvBatch, type KvChange } from '@busbar/protocol';
import { createRegistry } from '@busbar/telemetry';
import { KvPublisher } from './kv-publisher.ts';
import { createWorkerMetrics } from './metrics.ts';

const HEARTBEAT_MS = 250;

let nextBlock = 1;
function stored(blocks: number): KvChange {
  return { kind: 'stored', hashes: Uint32Array.from({ length: blocks * 2 }, () => nextBlock++) };
}

function publisherOf() {
  const batches: KvBatch[] = [];
  const registry = createRegistry({ role: 'decode', id: 'w1' });
  const metrics = createWorkerMetrics(registry, 'decode', () => {
    throw new Error('no load is asked for');
  });
  const publisher = new KvPublisher(1, metrics, (data) => {
    batches.push(decodeKvBatch(data));
    return true;
  });
  const send = (...changes: KvChange[]): void =>
    publisher.send({ dpRank: 0, tier: 'device', changes });
  const sizes = (): number[] => batches.map(({ changes }) => changes.length);
  return { publisher, send, sizes, batches };
}

test('single blocks of many sequences wait, however many steps made them', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { send, sizes, batches } = publisherOf();
  for (let step = 0; step < 25; step++) {
    send(stored(1), stored(1), { kind: 'removed', hashes: Uint32Array.of(step, 1) });
    t.mock.timers.tick(10);
  }
  assert.deepEqual(sizes(), [], 'a heartbeat takes them along');
  t.mock.timers.tick(HEARTBEAT_MS);
  assert.deepEqual(sizes(), [75]);
  assert.equal(batches[0]!.sequence, 1);
});

test('a prefill goes out at once, and what waited before it goes first', () => {
  const { send, sizes, batches } = publisherOf();
  const single = stored(1);
  const prompt = stored(20);
  send(single);
  send(prompt);
  assert.deepEqual(sizes(), [2]);
  assert.deepEqual(batches[0]!.changes, [single, prompt]);
});

test('so do an emptied cache and many evictions', () => {
  const { send, sizes } = publisherOf();
  send({ kind: 'cleared' });
  send({ kind: 'removed', hashes: Uint32Array.from({ length: 40 }, (_, at) => at) });
  assert.deepEqual(sizes(), [1, 1]);
});

test('of single blocks, no more wait than routers take in at a time', () => {
  const { publisher, send, sizes } = publisherOf();
  for (let step = 0; step < 10; step++) send(...Array.from({ length: 128 }, () => stored(1)));
  assert.deepEqual(sizes(), [512, 512]);
  publisher.flush();
  assert.deepEqual(sizes(), [512, 512, 256]);
});
