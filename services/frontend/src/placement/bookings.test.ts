import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { createSubjects, decodeLifeBatch, type LifeEvent } from '@busbar/protocol';
import { createRegistry } from '@busbar/telemetry';
import { createFrontendMetrics } from '../metrics.ts';
import { Bookings } from './bookings.ts';
import { DecisionHoldings } from './decision-holdings.ts';
import { LifePublisher } from './life-publisher.ts';

const SUBJECTS = createSubjects('test');

function bookingsOf(t: TestContext, hasOtherRouters: boolean) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const bus = new MemoryNetwork().connect();
  const told: LifeEvent['kind'][][] = [];
  mock.method(bus, 'publish', (_: string, data: Uint8Array) => {
    told.push(decodeLifeBatch(data).events.map(({ kind }) => kind));
  });
  const metrics = createFrontendMetrics(
    createRegistry({ role: 'frontend', id: 'f1' }),
    () => 0,
    () => 0,
  );
  const life = new LifePublisher(bus, SUBJECTS, 'f1', metrics);
  const bookings = new Bookings(life, new DecisionHoldings(), () => hasOtherRouters);
  const endOne = (): void =>
    bookings.ended(
      'm',
      { decisionId: 'd', workerId: 'w' },
      { outcome: 'completed', outputTokens: 1 },
    );
  return { bookings, told, endOne };
}

test('the only router hears of what ended together with the next request', (t) => {
  const { bookings, told, endOne } = bookingsOf(t, false);
  endOne();
  bookings.flushForRequest();
  assert.deepEqual(told, [['ended']]);
});

test('several routers hear of it by the clock, so that a request wakes one of them only', (t) => {
  const { bookings, told, endOne } = bookingsOf(t, true);
  for (let request = 0; request < 5; request++) {
    endOne();
    bookings.flushForRequest();
  }
  assert.deepEqual(told, []);
  t.mock.timers.tick(40);
  assert.deepEqual(told, [['ended', 'ended', 'ended', 'ended', 'ended']]);
});
