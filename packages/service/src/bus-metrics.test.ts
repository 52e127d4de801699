import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { Registry } from 'prom-client';
import { createBusMetrics } from './bus-metrics.ts';

test('whatever a bus counts is on the page of metrics, as it is now', async () => {
  const network = new MemoryNetwork();
  const bus = network.connect({ onError: () => {} });
  const registry = new Registry();
  createBusMetrics(registry, () => bus.counters);
  const lines = async (): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('busbar_bus_'));
  assert.equal((await lines()).length, Object.keys(bus.counters).length);
  bus.subscribe('a', () => assert.fail('as it should'));
  bus.publish('a', new Uint8Array(0));
  await bus.flush();
  network.disconnect();
  network.reconnect();
  for (const read of [1, 2]) {
    const page = await lines();
    assert.ok(page.includes('busbar_bus_handler_errors_total 1'), `${read}: ${page.join(', ')}`);
    assert.ok(page.includes('busbar_bus_reconnects_total 1'), `${read}: ${page.join(', ')}`);
  }
  await bus.close();
});
