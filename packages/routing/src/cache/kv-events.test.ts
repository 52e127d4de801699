import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Bench, chain, NONE, stored, syncsOf, truthsOf } from '../testing.ts';

const A4 = chain('a', 4);
const A3 = A4.slice(0, 6);
const block = (hashes: Uint32Array, at: number): Uint32Array => hashes.slice(at * 2, at * 2 + 2);
const removed = (hashes: Uint32Array) => ({ kind: 'removed' as const, hashes });

suite('what a worker tells of its cache', () => {
  test('is forgotten by a rank that was cleared, and by nobody else', () => {
    const bench = new Bench();
    bench.join('w1', { dpRanks: 2 });
    bench.join('w2');
    bench.kv('w1', 1, [stored(A3)]);
    bench.kv('w1', 2, [stored(A3)], { dpRank: 1 });
    bench.kv('w2', 1, [stored(A3)]);
    bench.kv('w1', 3, [removed(block(A3, 2))], { dpRank: 1 });
    assert.equal(bench.overlap('w1', A3), 3, 'the other rank still has it');
    bench.kv('w1', 4, [{ kind: 'cleared' }]);
    assert.equal(bench.overlap('w1', A3), 2, 'what rank 1 has left');
    assert.equal(bench.overlap('w2', A3), 3);
    assert.equal(bench.place(A3).workerId, 'w2');
  });

  test('may come with its next heartbeat: until then what it has just computed counts', () => {
    const bench = new Bench();
    for (const id of ['w1', 'w2', 'w3']) {
      bench.join(id);
      bench.kv(id, 1, [stored(chain(id, 2))]);
      const known = bench.place(chain(id, 2), { workerId: id });
      bench.first(known, 16);
      bench.end(known);
    }
    const first = bench.place(A3);
    bench.first(first);
    bench.end(first);
    assert.equal(bench.overlap(first.workerId, A3), 3, 'its events wait for company');
    bench.load(first.workerId);
    assert.equal(bench.overlap(first.workerId, A3), 0, 'a heartbeat came and no event');
    const failed = bench.place(A3);
    bench.end(failed, 'failed');
    assert.equal(bench.overlap(failed.workerId, A3), 0, 'nothing was computed');
    const last = bench.place(A3);
    bench.first(last);
    bench.end(last);
    bench.run(bench.core.onWorkerLeft(last.workerId, bench.nowMs));
    bench.join(last.workerId, {}, 2);
    assert.equal(bench.overlap(last.workerId, A3), 0, 'another life has another cache');
    bench.core.checkInvariants();
  });

  test('may remove unknown blocks, twice, and from the middle of a chain', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.join('w2');
    for (const id of ['w1', 'w2']) bench.kv(id, 1, [stored(A4)]);
    bench.kv('w1', 2, [removed(Uint32Array.from([...chain('zzz', 1), ...block(A4, 3)]))]);
    assert.equal(bench.overlap('w1', A4), 3);
    bench.kv('w1', 3, [removed(block(A4, 3))]);
    assert.equal(bench.overlap('w1', A4), 3);
    bench.kv('w1', 4, [removed(block(A4, 1))]);
    assert.equal(bench.overlap('w1', A4), 1, 'a hole ends the prefix');
    assert.equal(bench.overlap('w2', A4), 4);
    bench.kv('w1', 5, [stored(block(A4, 1))]);
    assert.equal(bench.overlap('w1', A4), 3, 'children behind a filled hole count again');
    for (const [id, sequence] of [
      ['w1', 6],
      ['w2', 2],
    ] as const)
      bench.kv(id, sequence, [removed(A4)]);
    assert.equal(bench.view('w1').indexedBlocks + bench.view('w2').indexedBlocks, 0);
  });

  test('is void after it left, late events included, and begins anew when its name returns', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.join('w2');
    for (let sequence = 1; sequence <= 500; sequence++) bench.kv('w1', sequence, [stored(A4)]);
    bench.run(bench.core.onWorkerLeft('w1', bench.nowMs));
    assert.deepEqual(bench.kv('w1', 501, [stored(A4)]), []);
    bench.join('w1', {}, 2);
    bench.kv('w1', 502, [stored(A4)]);
    bench.kv('w1', 1, [stored(chain('x', 2))], { epoch: 2 });
    assert.equal(bench.overlap('w1', A4), 0);
    assert.equal(bench.overlap('w1', chain('x', 2)), 2);
    assert.equal(bench.view('w1').indexedBlocks, 2);
  });

  test('is void when its epoch changes without a word', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.kv('w1', 1, [stored(A4)]);
    const effects = bench.kv('w1', 1, [stored(chain('x', 2))], { epoch: 7 });
    assert.deepEqual(syncsOf(effects), ['w1 epoch']);
    bench.snapshot('w1', 1, chain('x', 2), 7);
    assert.equal(bench.view('w1').indexedBlocks, 2);
    assert.deepEqual(bench.kv('w1', 2, [stored(A4)]), [], 'the old life is over');
    assert.equal(bench.view('w1').indexedBlocks, 2);
  });

  test('is void when its sequence begins again under the same epoch', () => {
    const bench = new Bench();
    bench.join('w1');
    for (let sequence = 1; sequence <= 500; sequence++) bench.kv('w1', sequence, [stored(A4)]);
    assert.deepEqual(bench.kv('w1', 499, [stored(A4)]), [], 'one repeat is a repeat');
    assert.deepEqual(syncsOf(bench.kv('w1', 1, [stored(chain('x', 2))])), ['w1 epoch']);
    bench.snapshot('w1', 1, chain('x', 2));
    assert.equal(bench.overlap('w1', A4), 0);
    assert.equal(bench.overlap('w1', chain('x', 2)), 2);
  });

  test('with a new epoch in its heartbeat frees what was booked on the old process', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.place(A4);
    const effects = bench.load('w1', { epoch: 2 });
    assert.deepEqual(syncsOf(effects), ['w1 epoch']);
    assert.equal(bench.view('w1').bookedRequests, 0);
    assert.deepEqual(bench.load('w1', { epoch: 1 }), [], 'a late heartbeat of the old process');
  });
});

suite('a gap in the events', () => {
  test('is closed by a snapshot and what came after it', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.kv('w1', 1, [stored(chain('a', 2))]);
    assert.deepEqual(syncsOf(bench.kv('w1', 3, [stored(chain('c', 2))])), ['w1 gap']);
    assert.deepEqual(syncsOf(bench.kv('w1', 4, [stored(chain('d', 2))])), [], 'asked once');
    assert.equal(bench.overlap('w1', chain('a', 2)), 2, 'what is known is used meanwhile');
    bench.snapshot('w1', 3, chain('c', 2));
    assert.equal(bench.overlap('w1', chain('a', 2)), 0, 'the snapshot is the truth');
    assert.equal(bench.overlap('w1', chain('c', 2)), 2);
    assert.equal(bench.overlap('w1', chain('d', 2)), 2, 'replayed on top');
    assert.deepEqual(bench.kv('w1', 5, [removed(chain('d', 2))]), []);
    assert.equal(bench.overlap('w1', chain('d', 2)), 0);
  });

  test('behind the snapshot asks for another, and gives the events up after four', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.kv('w1', 9, [stored(A4)]);
    for (let i = 0; i < 3; i++)
      assert.deepEqual(syncsOf(bench.snapshot('w1', 2, NONE)), ['w1 gap']);
    assert.deepEqual(truthsOf(bench.snapshot('w1', 2, NONE)), ['w1 events to approximate']);
    assert.match(bench.view('w1').reason, /gap/);
  });

  test('at the end shows in the heartbeat', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.kv('w1', 1, [stored(A4)]);
    assert.deepEqual(bench.load('w1', { kvSequence: 2 }), [], 'it may be on its way');
    bench.nowMs += 200;
    assert.deepEqual(syncsOf(bench.load('w1', { kvSequence: 3 })), []);
    bench.nowMs += 100;
    assert.deepEqual(syncsOf(bench.load('w1', { kvSequence: 3 })), ['w1 heartbeat']);
    bench.snapshot('w1', 3, chain('b', 1));
    bench.nowMs += 1000;
    assert.deepEqual(bench.load('w1', { kvSequence: 3 }), []);
  });

  test('keeps a bounded number of batches', () => {
    const bench = new Bench();
    bench.join('w1');
    for (let sequence = 2; sequence < 3000; sequence++) {
      bench.core.onKv('w1', { epoch: 1, sequence, dpRank: 0, tier: 'device', changes: [] }, 0);
    }
    assert.deepEqual(syncsOf(bench.snapshot('w1', 1, NONE)), ['w1 gap'], 'the first ones are gone');
    bench.snapshot('w1', 2999, A4);
    assert.equal(bench.view('w1').truth, 'events');
    assert.equal(bench.overlap('w1', A4), 4);
  });

  test('that no snapshot closes demotes the worker, and events that go on restore it', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.kv('w1', 1, [stored(A4)]);
    bench.kv('w1', 3, [stored(A4)]);
    const failed = bench.run(bench.core.onKvSyncFailed('w1', bench.nowMs));
    assert.deepEqual(truthsOf(failed), ['w1 events to approximate']);
    assert.equal(bench.view('w1').indexedBlocks, 0);
    assert.deepEqual(bench.kv('w1', 4, []), [], 'not at once');
    bench.nowMs += 31_000;
    assert.deepEqual(syncsOf(bench.kv('w1', 5, [])), ['w1 gap']);
    assert.deepEqual(truthsOf(bench.snapshot('w1', 5, A4)), ['w1 approximate to events']);
    bench.load('w1');
    assert.equal(bench.overlap('w1', A4), 4);
  });

  test('that nobody answers is given up after some seconds', () => {
    const bench = new Bench({ queueWaitMs: 20_000 });
    bench.run(bench.core.onWorkerJoined('w1', 1, { ...bench.info }, 0));
    bench.pass(6_000, ['w1']);
    assert.equal(bench.view('w1').truth, 'approximate');
    assert.equal(bench.view('w1').isAvailable, true);
  });
});

test('events that name an unannounced rank are not believed, nor ever again', () => {
  const bench = new Bench();
  bench.join('w1');
  assert.deepEqual(truthsOf(bench.kv('w1', 1, [stored(A4)], { dpRank: 5 })), [
    'w1 events to approximate',
  ]);
  bench.nowMs += 60_000;
  assert.deepEqual(bench.kv('w1', 2, [stored(A4)]), []);
  assert.match(bench.view('w1').reason, /rank 5/);
});
