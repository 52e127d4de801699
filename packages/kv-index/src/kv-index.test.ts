import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createRng, type Rng } from '@busbar/base';
import { createKvIndex, type KvIndex } from './index.ts';

const [A, B, C, D] = [1, 2, 3, 4];

/** Blocks named by small numbers. Hashes need not be random: an engine's may be counters. */
function blocks(...names: number[]): Uint32Array {
  return Uint32Array.from(names.flatMap((name) => [name, 0]));
}

function randomBlocks(rng: Rng, count: number): Uint32Array {
  return Uint32Array.from({ length: count * 2 }, () => rng.u32());
}

function overlapsOf(index: KvIndex, owners: number, hashes: Uint32Array): number[] {
  const overlaps = new Uint32Array(owners).fill(99);
  index.match(hashes, overlaps);
  return [...overlaps];
}

/** Bytes in use after a full collection, typed arrays included. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test('a removal or a clear touches its own owner only', () => {
  const index = createKvIndex();
  const [rank0, rank1, other] = [0, 1, 2];
  for (const owner of [rank0, rank1, other]) index.store(owner, blocks(A, B, C));
  index.remove(rank1, blocks(C));
  assert.deepEqual(overlapsOf(index, 3, blocks(A, B, C)), [3, 2, 3]);
  index.clear(rank0);
  assert.deepEqual(overlapsOf(index, 3, blocks(A, B, C)), [0, 2, 3]);
  assert.deepEqual(
    [rank0, rank1, other].map((owner) => index.blocksOf(owner)),
    [0, 2, 3],
  );
});

test('unknown, repeated and middle removals', () => {
  const index = createKvIndex();
  const unknown = 77;
  for (const owner of [0, 1]) index.store(owner, blocks(A, B, C, D));
  index.remove(0, blocks(unknown, D));
  assert.deepEqual(overlapsOf(index, 2, blocks(A, B, C, D)), [3, 4]);
  index.remove(0, blocks(D));
  assert.equal(index.blocksOf(0), 3);
  index.remove(0, blocks(B));
  assert.deepEqual(overlapsOf(index, 2, blocks(A, B, C, D)), [1, 4]);
  // Children stay when their parent goes, and count again when it returns.
  index.store(0, blocks(B));
  assert.deepEqual(overlapsOf(index, 2, blocks(A, B, C, D)), [3, 4]);
  for (const owner of [0, 1]) index.remove(owner, blocks(D, C, B, A));
  assert.equal(index.blocks, 0);
});

test('a block that was announced twice is one copy', () => {
  const index = createKvIndex();
  index.store(0, blocks(A, B, A));
  index.store(0, blocks(A));
  assert.equal(index.blocksOf(0), 2);
  index.remove(0, blocks(A, A));
  assert.equal(index.blocksOf(0), 1);
  assert.deepEqual(overlapsOf(index, 1, blocks(A, B)), [0]);
});

test('an owner number that is handed out again starts empty', () => {
  const index = createKvIndex();
  index.store(0, blocks(A, B, C));
  index.store(1, blocks(A));
  index.clear(0);
  index.remove(0, blocks(A, B));
  assert.deepEqual(overlapsOf(index, 2, blocks(A, B)), [0, 1]);
  index.store(0, blocks(D));
  assert.deepEqual([...index.dump(0)], [...blocks(D)]);
  assert.deepEqual(overlapsOf(index, 2, blocks(D, A)), [1, 0]);
  assert.equal(index.blocks, 2);
});

test('churn under a shared prefix leaves table and heap flat', () => {
  const rng = createRng(26);
  const index = createKvIndex({ initialOwners: 8 });
  const prefix = randomBlocks(rng, 32);
  index.store(0, prefix);
  const churn = (rounds: number): void => {
    for (let i = 0; i < rounds; i++) {
      const owner = rng.int(8);
      const suffix = randomBlocks(rng, 8);
      index.store(owner, suffix);
      index.remove(owner, suffix);
    }
  };
  churn(100_000);
  const before = heapBytes();
  const { bytes, capacity } = index;
  churn(100_000);
  assert.ok(heapBytes() < before * 1.05, `${before} bytes became ${heapBytes()}`);
  assert.deepEqual([index.blocks, index.bytes, index.capacity], [32, bytes, capacity]);
  assert.equal(overlapsOf(index, 1, prefix)[0], 32);
});

test('memory comes back when blocks go, by removal and by clear', () => {
  const rng = createRng(3);
  const index = createKvIndex({ initialOwners: 2 });
  const empty = index.bytes;
  const first = randomBlocks(rng, 10_000);
  index.store(0, first);
  index.store(1, randomBlocks(rng, 30_000));
  const full = index.bytes;
  index.clear(1);
  assert.ok(index.bytes < full * 0.51, `${full} bytes became ${index.bytes}`);
  index.remove(0, first);
  assert.equal(index.bytes, empty);
});

test('a hole ends the match for its owner only, up to the owners that were asked for', () => {
  const index = createKvIndex({ initialOwners: 40 });
  index.store(0, blocks(A, B, D));
  index.store(39, blocks(A, B, C, D));
  index.store(5, blocks(B, C));
  assert.deepEqual(overlapsOf(index, 6, blocks(A, B, C, D)), [2, 0, 0, 0, 0, 0]);
  assert.equal(overlapsOf(index, 64, blocks(A, B, C, D))[39], 4);
  assert.deepEqual(overlapsOf(index, 2, blocks()), [0, 0]);
});

test('the zero hash is a hash like any other', () => {
  const index = createKvIndex();
  index.store(3, blocks(0, A));
  assert.ok(index.has(3, 0, 0));
  assert.deepEqual(overlapsOf(index, 4, blocks(0, A)), [0, 0, 0, 2]);
  assert.deepEqual(new Set(index.dump(3)), new Set([0, 1]));
  assert.equal(index.blocksOf(3), 2);
  index.clear(3);
  assert.ok(!index.has(3, 0, 0));
  assert.equal(index.blocks, 0);
});

test('owners may come late and be many', () => {
  const rng = createRng(9);
  const index = createKvIndex({ initialOwners: 8 });
  const hashes = randomBlocks(rng, 3000);
  const owners = [7, 8, 31, 32, 255, 256, 1023];
  for (const [i, owner] of owners.entries())
    index.store(owner, hashes.subarray(0, 2 * 100 * (i + 1)));
  const overlaps = overlapsOf(index, 1024, hashes);
  for (const [i, owner] of owners.entries()) assert.equal(overlaps[owner], 100 * (i + 1));
  assert.equal(overlaps.filter((overlap) => overlap > 0).length, owners.length);
});

test('refuses owners and hashes that cannot be', () => {
  const index = createKvIndex();
  assert.throws(() => index.store(-1, blocks(A)), /owner -1/);
  assert.throws(() => index.store(0.5, blocks(A)), /owner 0.5/);
  assert.throws(() => index.store(1e9, blocks(A)), /owner 1000000000/);
  assert.throws(() => index.store(0, new Uint32Array(3)), /3 hash words/);
  assert.equal(index.blocksOf(4000), 0);
});
