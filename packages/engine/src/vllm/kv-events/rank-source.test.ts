import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import { removedEvent, storedEvent } from './fake-publisher.testing.ts';
import type { SequencedPayload } from './frames.ts';
import type { KvEventsProblem } from './port.ts';
import { ProblemTeller } from './problem-teller.ts';
import { RankSource, type Replay } from './rank-source.ts';
import { chains, RouterView, toBigInts } from './router-view.testing.ts';

const GARBAGE = Uint8Array.of(0xc1, 1, 2);

function payloadOf(...events: unknown[]): Uint8Array {
  return encode([1.5, events, 0]);
}

/** A source without sockets: what it is told, what it can ask for, and what came of it. */
class Bench {
  readonly view = new RouterView();
  readonly problems: KvEventsProblem[] = [];
  readonly asked: number[] = [];
  readonly source: RankSource;
  /** What the publisher keeps for replays. */
  buffer: SequencedPayload[] = [];
  failure: string | undefined;
  nowMs = 0;

  constructor({ canReplay = true, hasSiblings = false } = {}) {
    const replay: Replay = async (from, take) => {
      this.asked.push(from);
      for (const answer of this.buffer) {
        if (answer.sequence >= from && !take(answer)) return undefined;
      }
      return this.failure;
    };
    this.source = new RankSource({
      dpRank: 0,
      sink: this.view.sink,
      hasSiblings,
      ...(canReplay && { replay }),
      problems: new ProblemTeller(
        (problem) => this.problems.push(problem),
        () => this.nowMs,
      ),
      nowMs: () => this.nowMs,
    });
  }

  keep(sequence: number, ...events: unknown[]): void {
    this.buffer.push({ sequence, payload: payloadOf(...events) });
  }

  async hear(sequence: number, ...events: unknown[]): Promise<void> {
    await this.hearPayload(sequence, payloadOf(...events));
  }

  async hearPayload(sequence: number, payload: Uint8Array): Promise<void> {
    const number = new Uint8Array(8);
    new DataView(number.buffer).setBigUint64(0, BigInt(sequence));
    await this.source.hear([new Uint8Array(), number, payload]);
    const own = this.source.blocks().find(({ tier }) => tier === 'device');
    const snapshot = new Set(toBigInts(own?.hashes ?? new Uint32Array()));
    assert.deepEqual(snapshot, this.view.device(), 'the snapshot is what was told');
  }

  kinds(): string[] {
    return this.problems.map(({ kind }) => kind);
  }
}

test('what is missing is asked for from the number after the last, and applied in order', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1, 2]));
  bench.keep(1, storedEvent([3], 2));
  bench.keep(2, removedEvent(3), storedEvent([4], 2));
  bench.keep(3, storedEvent([5], 4));
  await bench.hear(3, storedEvent([5], 4));
  assert.deepEqual(bench.view.device(), chains([1, 2, 4, 5]));
  assert.deepEqual(bench.asked, [1]);
  // Messages that the replay had told before they were read from the subscription.
  await bench.hear(4, storedEvent([6], 5));
  assert.deepEqual(bench.view.device(), chains([1, 2, 4, 5, 6]));
  assert.deepEqual(bench.kinds(), ['gap']);
  assert.equal(bench.source.statistics.replayedBatches, 3);
});

test('a message that a replay told already is not applied twice', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1]));
  for (let i = 1; i <= 4; i++) bench.keep(i, storedEvent([i + 1], i));
  await bench.hear(2, storedEvent([3], 2));
  await bench.hear(3, storedEvent([4], 3));
  await bench.hear(4, storedEvent([5], 4));
  await bench.hear(5, removedEvent(5));
  assert.deepEqual(bench.view.device(), chains([1, 2, 3, 4]));
  assert.deepEqual(bench.kinds(), ['gap']);
});

test('an engine that tells its blocks again is found out, told of, and followed from there', async () => {
  const bench = new Bench();
  bench.source.expectBlocks(4, 3);
  await bench.hear(0, storedEvent([1, 2]));
  await bench.hear(1, storedEvent([1, 2]));
  assert.deepEqual(bench.view.device(), new Set());
  assert.match(bench.problems.at(-1)?.message ?? '', /tells some of them again/);
  await bench.hear(2, storedEvent([1, 2]));
  await bench.hear(3, storedEvent([1, 2]));
  assert.deepEqual(bench.view.device(), chains([1, 2]));
  await bench.hear(4, removedEvent(2), removedEvent(1));
  assert.deepEqual(bench.view.device(), new Set(), 'evicted once is gone');
  assert.deepEqual(bench.kinds(), ['lost']);
});

test('when the first answer is newer than asked, all is dropped and built anew from there', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1, 2]));
  bench.keep(5, storedEvent([7]));
  bench.keep(6, storedEvent([8], 7));
  await bench.hear(6, storedEvent([8], 7));
  assert.deepEqual(bench.view.device(), chains([7, 8]));
  assert.equal(bench.view.clears, 1);
  assert.deepEqual(bench.kinds(), ['gap', 'lost']);
});

test('without a replay, or when it fails, all is dropped and built anew', async () => {
  const silent = new Bench();
  silent.failure = 'no answer';
  for (const bench of [new Bench({ canReplay: false }), silent]) {
    await bench.hear(0, storedEvent([1, 2]));
    await bench.hear(2, storedEvent([9]));
    assert.deepEqual(bench.view.device(), chains([9]));
    assert.deepEqual(bench.kinds(), ['gap', 'lost']);
    await bench.hear(3, storedEvent([10], 9));
    assert.deepEqual(bench.view.device(), chains([9, 10]));
  }
});

test('a replay with a hole, as a slow reader gets it, is asked for again from there', async () => {
  const bench = new Bench();
  for (let i = 0; i < 6; i++) bench.keep(i, storedEvent([i + 1], i === 0 ? undefined : i));
  const whole = bench.buffer;
  bench.buffer = whole.filter(({ sequence }) => sequence !== 2);
  const hearing = bench.hear(5, storedEvent([6], 5));
  bench.buffer = whole;
  await hearing;
  assert.deepEqual(bench.asked, [0, 2]);
  assert.deepEqual(bench.view.device(), chains([1, 2, 3, 4, 5, 6]));
  assert.deepEqual(bench.kinds(), ['gap']);
});

test('a sequence that begins again is a new engine', async () => {
  for (const first of [0, 1]) {
    const bench = new Bench();
    await bench.hear(0, storedEvent([1, 2]));
    await bench.hear(1, storedEvent([3], 2));
    bench.keep(0, storedEvent([20]));
    bench.keep(1, storedEvent([21], 20));
    await bench.hear(first, ...(first === 0 ? [storedEvent([20])] : [storedEvent([21], 20)]));
    assert.equal(bench.view.resets, 1);
    assert.deepEqual(bench.view.device(), first === 0 ? chains([20]) : chains([20, 21]));
    assert.equal(bench.kinds()[0], 'restart');
  }
});

test('one rank of several begins anew without clearing the others', async () => {
  const bench = new Bench({ hasSiblings: true });
  await bench.hear(0, storedEvent([1]));
  await bench.hear(0, storedEvent([2]));
  assert.equal(bench.view.resets, 0);
  assert.equal(bench.view.clears, 1);
  assert.deepEqual(bench.view.device(), chains([2]));
});

test('after the connection was cut, numbers that seem to go on are not believed', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1]));
  bench.source.onConnectionLost();
  bench.keep(0, storedEvent([30]));
  bench.keep(1, storedEvent([31], 30));
  await bench.hear(1, storedEvent([31], 30));
  assert.deepEqual(bench.view.device(), chains([30, 31]));
});

test('a payload that cannot be read is asked for once more', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1]));
  bench.keep(1, storedEvent([2], 1));
  await bench.hearPayload(1, GARBAGE);
  assert.deepEqual(bench.view.device(), chains([1, 2]));
  bench.buffer = [{ sequence: 2, payload: GARBAGE }];
  await bench.hearPayload(2, GARBAGE);
  assert.deepEqual(bench.view.device(), new Set());
  await bench.hear(3, storedEvent([5]));
  assert.deepEqual(bench.view.device(), chains([5]));
  assert.ok(bench.kinds().includes('lost'));
});

test('frames of no known form are counted, and the gap they leave is filled', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1]));
  for (const frames of [
    [],
    [GARBAGE],
    [GARBAGE, GARBAGE, GARBAGE],
    [1, 2, 3, 4].map(() => GARBAGE),
  ]) {
    await bench.source.hear(frames);
  }
  bench.keep(1, storedEvent([2], 1));
  await bench.hear(2, storedEvent([3], 2));
  assert.deepEqual(bench.view.device(), chains([1, 2, 3]));
  assert.deepEqual(bench.kinds(), ['bad-frame', 'gap']);
});

test('orphans make it rebuild everything, if the engine keeps everything, and not again at once', async () => {
  const bench = new Bench();
  bench.failure = 'no answer';
  await bench.hear(3, storedEvent([4], 3));
  assert.deepEqual(bench.view.device(), new Set());
  bench.failure = undefined;
  for (let i = 0; i <= 5; i++) bench.keep(i, storedEvent([i + 1], i === 0 ? undefined : i));
  bench.nowMs = 60_000;
  await bench.hear(4, storedEvent([5], 4));
  assert.deepEqual(bench.view.device(), chains([1, 2, 3, 4, 5, 6]));
  const { length } = bench.asked;
  await bench.hear(6, storedEvent([90], 91));
  assert.equal(bench.asked.length, length);
  assert.equal(bench.source.statistics.orphanBlocks, 3);
  bench.buffer = bench.buffer.slice(1);
  bench.nowMs = 120_000;
  for (const sequence of [7, 8]) await bench.hear(sequence, storedEvent([92], 93));
  assert.equal(bench.asked.length, length + 1, 'what it does not keep is not asked for again');
  assert.deepEqual(bench.view.device(), chains([1, 2, 3, 4, 5, 6]));
});

test('an engine that runs already is learnt from what it keeps', async () => {
  const bench = new Bench();
  bench.keep(4, storedEvent([5]));
  bench.keep(5, storedEvent([6], 5));
  await bench.source.begin();
  assert.deepEqual(bench.view.device(), chains([5, 6]));
  await bench.hear(6, storedEvent([7], 6));
  assert.deepEqual(bench.view.device(), chains([5, 6, 7]));
});

test('another block size than the announced is told and never used', async () => {
  const bench = new Bench();
  bench.source.expectBlocks(16);
  await bench.hear(0, storedEvent([1]));
  assert.deepEqual(bench.kinds(), ['block-size']);
  assert.match(bench.problems[0]?.message ?? '', /blocks of 4 tokens.*told 16/);
  const late = new Bench();
  await late.hear(0, storedEvent([1]));
  late.source.expectBlocks(16);
  assert.deepEqual(late.view.device(), new Set());
  assert.deepEqual(late.kinds(), ['block-size']);
});

test('an engine that is gone voids the replay that runs', async () => {
  const bench = new Bench();
  await bench.hear(0, storedEvent([1]));
  bench.keep(1, storedEvent([2], 1));
  const hearing = bench.hear(2, storedEvent([3], 2));
  bench.source.forget();
  await hearing;
  assert.deepEqual(bench.view.device(), new Set());
  assert.equal(bench.view.resets, 1);
  await bench.hear(0, storedEvent([50]));
  assert.deepEqual(bench.view.device(), chains([50]));
});

test('a problem is told once a second and counted always', () => {
  const told: KvEventsProblem[] = [];
  let nowMs = 0;
  const teller = new ProblemTeller(
    (problem) => told.push(problem),
    () => nowMs,
  );
  for (nowMs = 0; nowMs < 2_500; nowMs += 100) teller.tell('bad-frame', 0, 'x');
  teller.tell('bad-frame', 1, 'y');
  assert.deepEqual(
    told.map(({ dpRank, count }) => [dpRank, count]),
    [
      [0, 1],
      [0, 11],
      [0, 21],
      [1, 1],
    ],
  );
  assert.equal(teller.count('bad-frame'), 26);
});
