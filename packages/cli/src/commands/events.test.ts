import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { fakeContext } from '../testing.ts';
import { tellBreaks } from './events.ts';

test('a follower is told that events are missed, and when they come again', async () => {
  const network = new MemoryNetwork();
  const bus = network.connect();
  const { context, out, err } = fakeContext();
  tellBreaks(bus, context.terminal);
  network.disconnect();
  assert.match(err(), /^The connection to NATS is lost; .* missed\.\n$/);
  network.reconnect();
  assert.match(err(), /missed\.\nConnected to NATS again\.\n$/);
  await bus.close();
  assert.equal(err().split('\n').length, 3);
  assert.equal(out(), '');
});
