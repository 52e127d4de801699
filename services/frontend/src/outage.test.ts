import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bus, BusError, MemoryNetwork } from '@busbar/bus';
import type { RouteReply } from '@busbar/protocol';
import { createSubjects, decodeCancel, limit } from '@busbar/protocol';
import { createTestContext } from '@busbar/service/testing';
import { DecisionHoldings } from './placement/decision-holdings.ts';
import {
  answerOf,
  type Script,
  ScriptedWorker,
  until,
  withStack,
} from './scripted-stack.testing.ts';
import { Returns } from './work/returns.ts';
import { WorkSender } from './work/work-sender.ts';

const nothing: Script = () => {};
const PLACE = { kind: 'place', routerId: 'r', workerId: 'w', expectedCachedTokens: 0 } as const;

function senderOn(bus: Bus, cancelsForgotten: (count: number) => void): WorkSender {
  const returns = new Returns(bus, createTestContext('frontend', bus).clock);
  return new WorkSender(bus, returns, createSubjects('test'), 'f1', { cancelsForgotten });
}

test('after an outage routers hear what is held, and late decisions are given back', () =>
  withStack({ workers: 1, script: nothing }, async (stack) => {
    const worker = stack.workers[0]!;
    const running = stack.chat();
    await until(() => worker.works.length === 1);
    worker.script = (w, { streamId }) => w.emit(streamId, 'z', 'stop');
    assert.equal((await stack.chat()).status, 200);
    let decide: ((reply: RouteReply) => void) | undefined;
    stack.route = () => new Promise((resolve) => (decide = resolve));
    const waiting = stack.chat();
    await until(() => decide !== undefined);
    assert.deepEqual(
      stack.routed.map(({ request }) => request.ask),
      [1, 2, 3],
    );
    stack.network.disconnect();
    assert.equal((await waiting).status, 503);
    stack.network.reconnect();
    await until(() => stack.held.length === 2);
    const list = { from: 0, before: 4, decisionIds: ['d1'] };
    assert.deepEqual(stack.held, [list, list]);
    decide!(stack.place(worker.id));
    await until(() => stack.ended('cancelled') === 1);
    worker.emit(worker.works[0]!.header.streamId, 'z', 'stop');
    assert.equal((await running).status, 200);
  }));

test('what is refused while the bus is away is counted, and no event waits for the end of the outage', () =>
  withStack({ workers: 1, script: nothing }, async (stack) => {
    stack.network.disconnect();
    assert.equal((await stack.chat()).status, 503);
    assert.equal(stack.context.events.length, 0);
    assert.match(await stack.metrics(), /requests_total\{outcome="failed",.*\} 1\n/);
    stack.network.reconnect();
    assert.equal((await stack.chat({ max_tokens: -1 })).status, 400);
    assert.equal(stack.context.events.length, 1);
  }));

test('an open ask and what comes after it are in no list; both legs of a split are in one', () => {
  const holdings = new DecisionHoldings();
  const most = limit('heldDecisions');
  const asks = Array.from({ length: most + 3 }, () => holdings.ask());
  const open = asks.at(-2)!;
  for (const ask of asks) {
    if (ask === open) continue;
    const prefill = { ...PLACE, decisionId: `d${ask}.p`, onFailure: 'fail' } as const;
    holdings.take(ask, { ...PLACE, decisionId: `d${ask}`, ...(ask % 2 === 0 ? { prefill } : {}) });
    if (ask % 3 === 0) holdings.release(`d${ask}`);
    if (ask % 5 === 0) holdings.release(`d${ask}.p`);
  }
  const lists = holdings.lists();
  assert.ok(lists.length > 1);
  let before = 0;
  for (const list of lists) {
    assert.equal(list.from, before);
    ({ before } = list);
    assert.ok(list.decisionIds.length <= most);
    const expected: string[] = [];
    for (let ask = Math.max(1, list.from); ask < before; ask++) {
      if (ask % 3 !== 0) expected.push(`d${ask}`);
      if (ask % 2 === 0 && ask % 5 !== 0) expected.push(`d${ask}.p`);
    }
    assert.deepEqual(list.decisionIds.toSorted(), expected.toSorted());
  }
  assert.equal(before, open);
  holdings.settle(open);
  assert.equal(holdings.lists().at(-1)?.before, asks.at(-1)! + 1);
});

test('cancels of an outage and from right before it are said again, one message a worker and kind', async () => {
  const network = new MemoryNetwork();
  const subjects = createSubjects('test');
  const sender = senderOn(network.connect(), () => {});
  const heard: string[] = [];
  const listener = network.connect();
  for (const id of ['w1', 'w2']) {
    listener.subscribe(subjects.cancel(id), ({ data }) => {
      const { streamIds, isFetched } = decodeCancel(data);
      heard.push(`${id} ${isFetched} ${[...streamIds].join(' ')}`);
    });
  }
  sender.cancel('w1', [1, 2]);
  sender.hold();
  sender.cancel('w2', [3]);
  sender.fetched('w1', 4);
  sender.cancel('w1', [5]);
  await until(() => heard.length === 4);
  sender.repeat();
  await until(() => heard.length === 7);
  assert.deepEqual(heard.slice(4), ['w1 false 1 2 5', 'w2 false 3', 'w1 true 4']);
});

test('cancels that are too many to be said again are counted', () => {
  let forgotten = 0;
  const sender = senderOn(new MemoryNetwork().connect(), (count) => {
    forgotten += count;
  });
  sender.hold();
  const most = limit('repeatedCancels');
  sender.cancel(
    'w1',
    Array.from({ length: 2 * most }, (_, at) => at + 1),
  );
  assert.equal(forgotten, 0);
  sender.cancel('w1', [2 * most + 1]);
  assert.equal(forgotten, most);
});

test('a stream that was stopped while the worker did not hear it is stopped after the outage', () =>
  withStack({ workers: 1, script: nothing }, async (stack) => {
    const worker = stack.workers[0]!;
    const gone = new AbortController();
    const running = stack.chat({}, { signal: gone.signal }).catch(() => 'gone');
    await until(() => worker.works.length === 1);
    worker.isDeaf = true;
    gone.abort();
    assert.equal(await running, 'gone');
    await until(() => stack.ended('cancelled') === 1);
    assert.deepEqual(worker.cancelled, []);
    stack.network.disconnect();
    worker.isDeaf = false;
    stack.network.reconnect();
    await until(() => worker.cancelled.length > 0);
    assert.equal(worker.cancelled[0], worker.works[0]!.header.streamId);
  }));

test('after an outage a worker says how far its streams are: what lost tokens moves or ends at once, the rest goes on', () =>
  withStack({ workers: 2, script: nothing }, async (stack) => {
    const [first, second] = stack.workers;
    first!.tellsStreams = true;
    const [lost, ended, waiting, shown] = [1, 2, 3, 4].map(() => stack.chat());
    await until(() => first!.works.length === 4);
    const [lostId, endedId, waitingId, shownId] = first!.works.map(({ header }) => header.streamId);
    first!.emit(shownId!, 's');
    await until(() => stack.life.some(({ kind }) => kind === 'firstToken'));
    stack.network.disconnect();
    first!.lose(lostId!, 'l');
    first!.lose(endedId!, 'e', 'stop');
    first!.script = second!.script = (worker, { streamId }) =>
      worker.emit(streamId, 'moved', 'stop');
    stack.network.reconnect();
    const reconnectedMs = performance.now();
    for (const moved of [lost, ended]) {
      assert.equal((await answerOf(moved!)).choices[0]?.message.content, 'moved');
    }
    assert.ok(performance.now() - reconnectedMs < 2_500, 'not left to the limits of suspicion');
    await until(() => performance.now() - reconnectedMs > 3_500, 4_000);
    first!.emit(waitingId!, 'w', 'stop');
    first!.emit(shownId!, 'h', 'stop');
    assert.equal((await answerOf(waiting!)).choices[0]?.message.content, 'w');
    assert.equal((await answerOf(shown!)).choices[0]?.message.content, 'sh');
    assert.deepEqual(new Set(first!.cancelled), new Set([lostId, endedId]));
  }));

test('an outage excludes no worker: one that is back later gets the request, and so does the only one after it lost tokens', () =>
  withStack({ workers: 1, script: nothing }, async (stack) => {
    const worker = stack.workers[0]!;
    worker.tellsStreams = true;
    const shown = stack.chat();
    await until(() => worker.works.length === 1);
    const lost = stack.chat();
    await until(() => worker.works.length === 2);
    const [shownId, lostId] = worker.works.map(({ header }) => header.streamId);
    // It comes behind both acknowledgements.
    worker.emit(shownId!, 's');
    await until(() => stack.life.some(({ kind }) => kind === 'firstToken'));
    stack.network.disconnect();
    worker.lose(lostId!, 'x', 'stop');
    worker.script = (w, { streamId }) => w.emit(streamId, 'again', 'stop');
    stack.network.reconnect();
    assert.equal((await answerOf(lost)).choices[0]?.message.content, 'again');
    worker.emit(shownId!, 'h', 'stop');
    assert.equal((await answerOf(shown)).choices[0]?.message.content, 'sh');

    stack.network.disconnect();
    await worker.kill();
    stack.network.reconnect();
    const routedBefore = stack.routed.length;
    const early = stack.chat();
    await until(() => stack.routed.length > routedBefore);
    await sleep(20);
    const back = new ScriptedWorker(worker.id, stack.network.connect(), worker.script);
    assert.equal((await early).status, 200);
    assert.equal(stack.routed.length, routedBefore + 1);
    await back.kill();
  }));

test('nobody listening is believed at once, but for a second after an outage', async () => {
  const network = new MemoryNetwork();
  const bus = network.connect();
  let nowMs = 5_000;
  const returns = new Returns(bus, { monotonicMs: () => nowMs, wallMs: () => nowMs });
  let isWanted = true;
  const ask = (): Promise<unknown> =>
    returns.request('s', new Uint8Array(1), { timeoutMs: 1_000 }, () => isWanted);
  const isNobody = (error: unknown): boolean =>
    error instanceof BusError && error.code === 'BUS_NO_RESPONDERS';
  await assert.rejects(ask(), isNobody);
  network.disconnect();
  network.reconnect();
  const answered = ask();
  await sleep(20);
  const subscription = network
    .connect()
    .subscribe('s', (message) => message.respond(new Uint8Array(0)));
  await answered;
  subscription.unsubscribe();
  const unwanted = ask();
  isWanted = false;
  await assert.rejects(unwanted, isNobody);
  isWanted = true;
  const late = ask();
  nowMs += 1_000;
  await assert.rejects(late, isNobody);
  returns.stop();
});
