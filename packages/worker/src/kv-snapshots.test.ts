import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeKvSyncReply } from '@busbar/protocol';
import { KvSnapshots } from './kv-snapshots.ts';

let nowMs = 0;
const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };

function create(words: () => number): KvSnapshots {
  let sequence = 40;
  return new KvSnapshots({
    epoch: 7,
    clock,
    messageBytes: 1_024 + 80,
    read: () => ({
      sequence: ++sequence,
      sets: [
        {
          dpRank: 0,
          tier: 'device',
          hashes: Uint32Array.from({ length: words() }, (_, at) => at),
        },
        { dpRank: 1, tier: 'host', hashes: Uint32Array.of(900, 901) },
      ],
    }),
  });
}

test('parts add up to the block set, name rank and tier, and belong to one moment', () => {
  let words = 50;
  const snapshots = create(() => words);
  const first = decodeKvSyncReply(snapshots.answer({ part: 0 }));
  assert.equal(first.reply.parts, 4);
  assert.equal(first.reply.sequence, 41);
  assert.equal(first.reply.epoch, 7);
  words = 0;
  const all = [...first.hashes];
  for (let part = 1; part < 4; part++) {
    const { reply, hashes } = decodeKvSyncReply(
      snapshots.answer({ part, snapshotId: first.reply.snapshotId }),
    );
    assert.equal(reply.sequence, 41);
    assert.deepEqual([reply.dpRank, reply.tier], part === 3 ? [1, 'host'] : [0, 'device']);
    assert.ok(hashes.length % 2 === 0 && hashes.length <= 20);
    all.push(...hashes);
  }
  assert.deepEqual(all, [...Array.from({ length: 50 }, (_, at) => at), 900, 901]);
});

test('an old, displaced or unknown snapshot is answered as expired', () => {
  const snapshots = create(() => 50);
  const id = (): number => decodeKvSyncReply(snapshots.answer({ part: 0 })).reply.snapshotId;
  const isExpired = (snapshotId: number): boolean =>
    decodeKvSyncReply(snapshots.answer({ part: 1, snapshotId })).reply.expired === true;
  const first = id();
  assert.equal(isExpired(first), false);
  for (let i = 0; i < 4; i++) id();
  assert.equal(isExpired(first), true);
  const last = id();
  assert.equal(isExpired(last), false);
  nowMs += 60_000;
  assert.equal(isExpired(last), true);
  assert.equal(isExpired(12_345), true);
});

test('an empty cache is one empty part', () => {
  const snapshots = new KvSnapshots({ epoch: 1, clock, read: () => ({ sequence: 3, sets: [] }) });
  const { reply, hashes } = decodeKvSyncReply(snapshots.answer({ part: 0 }));
  assert.deepEqual([reply.parts, reply.sequence, hashes.length], [1, 3, 0]);
  assert.equal(reply.expired, undefined);
});
