import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { until } from '../../until.testing.ts';
import {
  FakePublisher,
  type FakePublisherOptions,
  removedEvent,
  storedEvent,
} from './fake-publisher.testing.ts';
import { createKvEvents, parseEventSources } from './index.ts';
import type { KvEvents, KvEventsConfig, KvEventsOptions, KvEventsProblem } from './port.ts';
import { chains, RouterView, toBigInts } from './router-view.testing.ts';

interface Listening {
  events: KvEvents;
  view: RouterView;
  problems: KvEventsProblem[];
  config: KvEventsConfig | undefined;
}

async function listen(
  t: TestContext,
  from: KvEventsOptions['from'],
  topic = 'kv',
): Promise<Listening> {
  const view = new RouterView();
  const problems: KvEventsProblem[] = [];
  const events = createKvEvents({
    sink: view.sink,
    from,
    topic,
    onProblem: (problem) => problems.push(problem),
  });
  const config = await events.open();
  t.after(() => events.close());
  return { events, view, problems, config };
}

async function publisher(t: TestContext, options: FakePublisherOptions): Promise<FakePublisher> {
  const fake = await FakePublisher.open({ topic: 'kv', ...options });
  t.after(() => fake.close());
  return fake;
}

/** A child's publisher, with the addresses that it was handed. */
function child(
  t: TestContext,
  config: KvEventsConfig | undefined,
  options: Partial<FakePublisherOptions> = {},
): Promise<FakePublisher> {
  assert.ok(config !== undefined);
  const { endpoint, replay_endpoint: replayEndpoint, topic } = config;
  return publisher(t, { endpoint, replayEndpoint, topic, ...options });
}

/** Addresses that nothing else uses and that need no port. */
function localAddresses(t: TestContext): { endpoint: string; replayEndpoint: string } {
  const directory = mkdtempSync(join(tmpdir(), 'kv-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return { endpoint: `ipc://${directory}/e`, replayEndpoint: `ipc://${directory}/r` };
}

function untilKnown(view: RouterView, expected: Set<bigint>, dpRank = 0): Promise<void> {
  return until(`rank ${dpRank} has ${expected.size} blocks`, () => {
    return isDeepStrictEqual(view.device(dpRank), expected);
  });
}

test('a child loses nothing: every event arrives, in order, in our own hashes', async (t) => {
  const { events, view, config, problems } = await listen(t, { kind: 'listen', dpRanks: 1 });
  const fake = await child(t, config);
  for (let i = 0; i < 500; i++) {
    await fake.publish([storedEvent([i + 1], i === 0 ? undefined : i)]);
  }
  await untilKnown(view, chains(Array.from({ length: 500 }, (_, i) => i + 1)));
  await fake.publish([removedEvent(500, 499)]);
  await untilKnown(view, chains(Array.from({ length: 498 }, (_, i) => i + 1)));
  await fake.publish([{ type: 'AllBlocksCleared' }, storedEvent([7])]);
  await untilKnown(view, chains([7]));
  assert.deepEqual(problems, []);
  const { batches, storedBlocks, removedBlocks, clears, blocks } = events.statistics();
  assert.deepEqual(
    { batches, storedBlocks, removedBlocks, clears, blocks },
    { batches: 502, storedBlocks: 501, removedBlocks: 2, clears: 1, blocks: 1 },
  );
  const [own] = events.blocks();
  assert.deepEqual(new Set(toBigInts(own!.hashes)), chains([7]));
});

for (const hasReplayTopic of [true, false]) {
  test(`what the network lost is replayed ${hasReplayTopic ? 'with' : 'without'} a topic`, async (t) => {
    const { events, view, config } = await listen(t, { kind: 'listen', dpRanks: 1 });
    const fake = await child(t, config, { hasReplayTopic });
    await fake.publish([storedEvent([1])]);
    for (const [hash, parent] of [
      [2, 1],
      [3, 2],
      [4, 3],
    ] as const) {
      await fake.publish([storedEvent([hash], parent)], { lost: true });
    }
    await fake.publish([removedEvent(4)], { lost: true });
    // Both are waiting in the socket while the replay runs.
    await fake.publish([storedEvent([5], 3)]);
    await fake.publish([storedEvent([6], 5)]);
    await untilKnown(view, chains([1, 2, 3, 5, 6]));
    const { gaps, replays, losses } = events.statistics();
    assert.deepEqual({ gaps, replays, losses }, { gaps: 1, replays: 1, losses: 0 });
  });
}

test('what the engine keeps no longer drops all, and a restart begins anew', async (t) => {
  const { events, view, config } = await listen(t, { kind: 'listen', dpRanks: 1 });
  const fake = await child(t, config, { bufferSteps: 2 });
  await fake.publish([storedEvent([1, 2])]);
  await untilKnown(view, chains([1, 2]));
  for (const hash of [10, 20, 30]) await fake.publish([storedEvent([hash])], { lost: true });
  await fake.publish([storedEvent([40])]);
  await untilKnown(view, chains([30], [40]));
  assert.equal(events.statistics().losses, 1);
  fake.restart();
  await fake.publish([storedEvent([50])]);
  await untilKnown(view, chains([50]));
  assert.equal(events.statistics().restarts, 1);
  assert.equal(view.resets, 1);
});

test('a replay that nobody answers ends by its limit', async (t) => {
  const { events, view, config, problems } = await listen(t, { kind: 'listen', dpRanks: 1 });
  assert.ok(config !== undefined);
  const fake = await publisher(t, { endpoint: config.endpoint });
  await fake.publish([storedEvent([1])]);
  await fake.publish([storedEvent([2], 1)], { lost: true });
  await fake.publish([storedEvent([9])]);
  await untilKnown(view, chains([9]));
  assert.equal(events.statistics().losses, 1);
  assert.match(problems.find(({ kind }) => kind === 'lost')?.message ?? '', /no answer within/);
});

test('garbage is counted and does no harm', async (t) => {
  const { events, view, config } = await listen(t, { kind: 'listen', dpRanks: 1 });
  const fake = await child(t, config);
  await fake.publish([storedEvent([1])]);
  await fake.sendFrames(['kv']);
  await fake.sendFrames(['kv', 'number', 'x']);
  await fake.sendFrames(['kv', new Uint8Array(8), 'x', 'more']);
  // Cut on its way: the replay has it whole.
  const buffered = Uint8Array.from(Buffer.from('93cb3ff000000000000090c0', 'hex'));
  await fake.publishPayload(buffered.subarray(0, 5), { buffered });
  await fake.publish([storedEvent([2], 1)]);
  await untilKnown(view, chains([1, 2]));
  const { badFrames, losses } = events.statistics();
  assert.deepEqual({ badFrames, losses }, { badFrames: 4, losses: 0 });
});

test('each data-parallel rank has a port and a cache of its own; other topics are not heard', async (t) => {
  const { view, config, events } = await listen(t, { kind: 'listen', dpRanks: 2 }, 'mine');
  assert.ok(config !== undefined);
  const next = (address: string): string => {
    return address.replace(/\d+$/, (port) => String(Number(port) + 1));
  };
  const first = await child(t, config);
  const second = await child(t, {
    ...config,
    endpoint: next(config.endpoint),
    replay_endpoint: next(config.replay_endpoint),
  });
  await first.publish([storedEvent([1])]);
  await second.publish([storedEvent([1, 2])]);
  await untilKnown(view, chains([1]), 0);
  await untilKnown(view, chains([1, 2]), 1);
  await first.publish([{ type: 'AllBlocksCleared' }]);
  await untilKnown(view, new Set(), 0);
  assert.equal(view.device(1).size, 2);
  await second.sendFrames(['other', new Uint8Array(8), 'x']);
  await second.publish([storedEvent([3], 2)]);
  await untilKnown(view, chains([1, 2, 3]), 1);
  assert.equal(events.statistics().badFrames, 0);
  assert.deepEqual(
    events.blocks().map(({ dpRank, tier }) => [dpRank, tier]),
    [
      [0, 'device'],
      [1, 'device'],
    ],
  );
});

test('an engine that runs is learnt from its replay, heard, and believed anew after a cut', async (t) => {
  const addresses = localAddresses(t);
  const before = await FakePublisher.open({ ...addresses, topic: 'kv', binds: true });
  await before.publish([storedEvent([1, 2])]);
  const source = { dpRank: 0, ...addresses };
  const { view } = await listen(t, { kind: 'attach', sources: [source] });
  await untilKnown(view, chains([1, 2]));
  await until('live events arrive', () => {
    void before.publish([storedEvent([3], 2)]);
    return view.device().size === 3;
  });
  before.close();
  const after = await publisher(t, { ...addresses, binds: true });
  await until('events of the new engine arrive', () => {
    void after.publish([storedEvent([70])]);
    return isDeepStrictEqual(view.device(), chains([70]));
  });
});

test('an engine that connects to a fixed address is met there', async (t) => {
  const { endpoint } = localAddresses(t);
  const sources = [{ dpRank: 0, endpoint, tryBind: true } as const];
  const { view } = await listen(t, { kind: 'attach', sources });
  const fake = await publisher(t, { endpoint });
  await fake.publish([storedEvent([1])]);
  await untilKnown(view, chains([1]));
});

test('nothing is told after the close, which waits for no engine', async (t) => {
  const { events, view, config } = await listen(t, { kind: 'listen', dpRanks: 1 });
  const fake = await child(t, config);
  await fake.publish([storedEvent([1])]);
  await untilKnown(view, chains([1]));
  await events.close();
  await fake.publish([storedEvent([2], 1)]);
  events.engineGone();
  await events.close();
  assert.deepEqual(view.device(), chains([1]));
  assert.equal(view.resets, 0);
});

test('reads where the engine says that it publishes', () => {
  const entry = {
    enable_kv_cache_events: true,
    publisher: 'zmq',
    buffer_steps: 100,
    hwm: 100_000,
    topic: 'kv-events',
  };
  const answer = {
    0: { ...entry, endpoint: 'tcp://*:5557', replay_endpoint: 'tcp://[::]:5567' },
    1: { ...entry, endpoint: 'tcp://127.0.0.1:5558', replay_endpoint: null },
  };
  assert.deepEqual(parseEventSources(answer, 'gpu-7'), {
    topic: 'kv-events',
    sources: [
      { dpRank: 0, endpoint: 'tcp://gpu-7:5557', replayEndpoint: 'tcp://gpu-7:5567' },
      { dpRank: 1, endpoint: 'tcp://127.0.0.1:5558', tryBind: true },
    ],
  });
  const off = { 0: { ...entry, enable_kv_cache_events: false, endpoint: 'x' } };
  assert.deepEqual(parseEventSources(off, 'h').sources, []);
  assert.throws(() => parseEventSources({ detail: 'Not Found' }, 'h'));
});
