import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BusPair, busContract } from './contract.ts';
import { createMemoryBus, MemoryNetwork } from './index.ts';

busContract('memory', (): Promise<BusPair> => {
  const network = new MemoryNetwork();
  const errors: unknown[] = [];
  const a = network.connect();
  const b = network.connect({ onError: (error) => errors.push(error) });
  return Promise.resolve({
    a,
    b,
    errors,
    disrupt: async () => network.disconnect(),
    restore: async () => network.reconnect(),
    dispose: async () => {
      await a.close();
      await b.close();
    },
  });
});

test('a lease that cannot be renewed is not held, and its key expires for the others', async () => {
  const network = new MemoryNetwork();
  const holder = network.connect();
  const bucket = await holder.bucket('leases');
  const lease = await bucket.lease('worker', Uint8Array.of(1), { ttlMs: 60, renewMs: 20 });
  await sleep(100);
  assert.equal(lease.isHeld, true);
  network.disconnect();
  await sleep(100);
  assert.equal(lease.isHeld, false);
  await holder.close();
  network.reconnect();
  const other = await network.connect().bucket('leases');
  assert.deepEqual(await other.entries(), []);
});

test('a key that vanished during a break is told as gone before the snapshot', async () => {
  const network = new MemoryNetwork();
  const [leaver, watcher] = [network.connect(), network.connect()];
  const told: string[] = [];
  await (await leaver.bucket('k')).lease('worker', Uint8Array.of(1), { ttlMs: 40, renewMs: 10 });
  await (await watcher.bucket('k')).watch((change) => told.push(change.kind));
  await watcher.flush();
  network.disconnect();
  await leaver.close();
  await sleep(80);
  network.reconnect();
  await watcher.flush();
  assert.deepEqual(told, ['put', 'snapshot', 'gone', 'snapshot']);
});

test('the receiver does not see what the sender does with its buffer later', async () => {
  const bus = createMemoryBus();
  const seen: number[] = [];
  bus.subscribe('x', ({ data }) => seen.push(data[0] ?? -1));
  const buffer = Uint8Array.of(1);
  bus.publish('x', buffer);
  buffer[0] = 2;
  await bus.flush();
  assert.deepEqual(seen, [1]);
});
