import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import { BusError, type BusMessage, MemoryNetwork } from '@busbar/bus';
import {
  createSubjects,
  decodeHeldDecisions,
  decodeRouteRequest,
  encodeRouteReply,
  type HeldDecisions,
  limit,
} from '@busbar/protocol';
import { scriptedCandidate } from '../scripted-candidate.testing.ts';
import { DecisionHoldings } from './decision-holdings.ts';
import { HeldTeller } from './held-teller.ts';
import { PlacementClient } from './placement-client.ts';

const SUBJECTS = createSubjects('test');
const PLACE = {
  kind: 'place',
  decisionId: 'd1',
  routerId: 'r',
  workerId: 'w',
  expectedCachedTokens: 0,
} as const;

function tellerOf(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const bus = new MemoryNetwork().connect();
  const told: HeldDecisions[] = [];
  t.mock.method(bus, 'publish', (subject: string, data: Uint8Array) => {
    assert.equal(subject, SUBJECTS.held('f1'));
    told.push(decodeHeldDecisions(data));
  });
  const holdings = new DecisionHoldings();
  const flush = mock.fn();
  const teller = new HeldTeller(bus, SUBJECTS, 'f1', holdings, flush);
  t.after(() => teller.stop());
  return { teller, holdings, told, flush, pass: (ms: number) => t.mock.timers.tick(ms) };
}

test('a frontend at work tells what it holds again and again, and some times behind that; an idle one says nothing', (t) => {
  const { holdings, told, flush, pass } = tellerOf(t);
  const intervalMs = limit('heldIntervalMs');
  for (let i = 0; i < 5; i++) pass(intervalMs);
  assert.equal(told.length, 0);
  holdings.take(holdings.ask(), PLACE);
  for (let i = 0; i < 5; i++) pass(intervalMs);
  const holding = { from: 0, before: 2, decisionIds: ['d1'] };
  assert.deepEqual(
    told.splice(0),
    Array.from({ length: 5 }, () => holding),
  );
  assert.equal(flush.mock.callCount(), 5, 'what waits of bookings goes first');
  holdings.release('d1');
  for (let i = 0; i < 9; i++) pass(intervalMs);
  assert.deepEqual(
    told.splice(0),
    Array.from({ length: 3 }, () => ({ ...holding, decisionIds: [] })),
  );
  holdings.settle(holdings.ask());
  pass(intervalMs);
  assert.equal(told.length, 1);
});

test('asks that were given up together make one list soon', (t) => {
  const { teller, holdings, told, pass } = tellerOf(t);
  for (let i = 0; i < 3; i++) {
    holdings.settle(holdings.ask());
    teller.soon();
  }
  pass(200);
  assert.deepEqual(told, [{ from: 0, before: 4, decisionIds: [] }]);
});

test('an ask without an answer is told, and repeated under another number; a late answer is given back, not held', async (t) => {
  const bus = new MemoryNetwork().connect();
  const holdings = new DecisionHoldings();
  const asks: (number | undefined)[] = [];
  const late: ((message: BusMessage) => void)[] = [];
  t.mock.method(bus, 'request', (async (_, data, { onLate }) => {
    asks.push(decodeRouteRequest(data).request.ask);
    if (onLate !== undefined) late.push(onLate);
    if (asks.length === 1) throw new BusError('BUS_TIMEOUT', 'late');
    return messageOf(encodeRouteReply(PLACE));
  }) satisfies typeof bus.request);
  const given: string[] = [];
  const onGivenUp = mock.fn();
  const client = new PlacementClient({
    bus,
    subjects: SUBJECTS,
    frontendId: 'f1',
    hasWorkers: () => true,
    readyRouters: () => [],
    giveBack: (_, { decisionId }) => given.push(decisionId),
    holdings,
    onGivenUp,
  });
  const place = await client.place(scriptedCandidate(), undefined, () => true);
  assert.equal(place.decisionId, 'd1');
  assert.deepEqual(asks, [1, 2]);
  assert.equal(onGivenUp.mock.callCount(), 1);
  late[0]!(messageOf(encodeRouteReply({ ...PLACE, decisionId: 'd0' })));
  assert.deepEqual(given, ['d0']);
  assert.deepEqual(holdings.lists(), [{ from: 0, before: 3, decisionIds: ['d1'] }]);
});

function messageOf(data: Uint8Array): BusMessage {
  return { subject: 's', data, headers: undefined, respond: () => false };
}
