import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BusError, type BusMessage, MemoryNetwork } from '@busbar/bus';
import { createSubjects, encodeRouteReply } from '@busbar/protocol';
import { scriptedCandidate } from '../scripted-candidate.testing.ts';
import { DecisionHoldings } from './decision-holdings.ts';
import { PlacementClient } from './placement-client.ts';

const SUBJECTS = createSubjects('test');
const ANYONE = SUBJECTS.route('m');
const R1 = SUBJECTS.routeTo('r1');
const R2 = SUBJECTS.routeTo('r2');
const REPLY = encodeRouteReply({
  kind: 'place',
  decisionId: 'd1',
  routerId: 'r',
  workerId: 'w',
  expectedCachedTokens: 0,
});

/** A client whose requests to these subjects end in these errors; all others are answered. */
function clientOf(routers: string[], errors: Record<string, 'BUS_TIMEOUT' | 'BUS_NO_RESPONDERS'>) {
  const asked: string[] = [];
  const bus = new MemoryNetwork().connect();
  const request: typeof bus.request = (subject) => {
    asked.push(subject);
    const code = errors[subject];
    const message: BusMessage = {
      subject,
      data: REPLY,
      headers: undefined,
      respond: () => false,
    };
    return code === undefined ? Promise.resolve(message) : Promise.reject(new BusError(code, code));
  };
  const client = new PlacementClient({
    bus: Object.assign(bus, { request }),
    subjects: SUBJECTS,
    frontendId: 'f1',
    hasWorkers: () => true,
    readyRouters: () => routers,
    giveBack: () => {},
    holdings: new DecisionHoldings(),
    onGivenUp: () => {},
  });
  const place = () => client.place(scriptedCandidate(), undefined, () => true);
  return { asked, place };
}

test('routers with a lease are asked by name, in turn', async () => {
  const { asked, place } = clientOf(['r1', 'r2'], {});
  for (let i = 0; i < 4; i++) await place();
  assert.deepEqual(asked, [R1, R2, R1, R2]);
});

test('whoever listens is asked while no lease is known', async () => {
  const { asked, place } = clientOf([], {});
  await place();
  assert.deepEqual(asked, [ANYONE]);
});

test('a router that says nothing is not the one that is asked once more', async () => {
  const { asked, place } = clientOf(['r1', 'r2'], { [R1]: 'BUS_TIMEOUT' });
  await place();
  await place();
  assert.deepEqual(asked, [R1, R2, R1, R2]);
});

test('a router that is gone before its lease costs nothing', async () => {
  const gone = { [R1]: 'BUS_NO_RESPONDERS' } as const;
  const { asked, place } = clientOf(['r1'], gone);
  await place();
  assert.deepEqual(asked, [R1, ANYONE]);
  const nobody = clientOf(['r1'], { ...gone, [ANYONE]: 'BUS_NO_RESPONDERS' });
  await assert.rejects(nobody.place(), { code: 'FRONTEND_NO_ROUTER' });
});

test('the only router is asked twice before a request fails', async () => {
  const { asked, place } = clientOf(['r1'], { [R1]: 'BUS_TIMEOUT' });
  await assert.rejects(place(), { code: 'FRONTEND_ROUTER_SILENT' });
  assert.deepEqual(asked, [R1, R1]);
});
