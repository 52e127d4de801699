import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '@busbar/base';
import { MemoryNetwork } from '@busbar/bus';
import { createSubjects, decodeCloudEvent } from '@busbar/protocol';
import { createLogger } from '@busbar/telemetry';
import { EventPublisher } from './events.ts';
import { until } from './testing.ts';

test('events of every request are made and sent only while somebody listens', async () => {
  const network = new MemoryNetwork();
  const bus = network.connect();
  const observer = network.connect();
  const subjects = createSubjects('default');
  let nowMs = 0;
  const clock: Clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };
  const log = createLogger({ level: 'silent', format: 'json', base: {}, write: () => {} });
  const publisher = new EventPublisher({ bus, subjects, clock, log, source: '/s', epoch: 1 });
  let made = 0;
  const offer = (): void =>
    publisher.offer('request.completed', 'r', () => {
      made++;
      return { made };
    });
  const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

  for (let i = 0; i < 1_000; i++) offer();
  assert.equal(made, 1, 'one in a second finds out');
  await settle();
  for (let i = 0; i < 1_000; i++) offer();
  assert.equal(made, 1, 'nobody listens');

  const heard: unknown[] = [];
  const subscription = observer.subscribe(subjects.eventAll, ({ data }) => {
    heard.push(decodeCloudEvent(data).data['made']);
  });
  nowMs = 1_000;
  offer();
  await until('the event that looks is heard as any other', () => heard.length === 1);
  // The answer that nobody gives is what tells of a listener.
  await until('events one by one', () => {
    offer();
    return heard.length >= 3;
  });
  assert.deepEqual(heard.slice(0, 3), [2, 3, 4]);
  subscription.unsubscribe();
  nowMs = 2_000;
  offer();
  await settle();
  const before = made;
  offer();
  assert.equal(made, before);

  network.disconnect();
  nowMs = 3_000;
  offer();
  offer();
  await bus.close();
  await observer.close();
});
