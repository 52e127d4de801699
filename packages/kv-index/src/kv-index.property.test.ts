import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createKvIndex, createReferenceKvIndex, type KvIndex } from './index.ts';
import { mix } from './mix.ts';

type Command =
  | { kind: 'store' | 'remove'; owner: number; names: number[] }
  | { kind: 'clear' | 'restore'; owner: number };

/** Names of blocks, few enough that stores, removals and matches meet. */
const NAMES = 4000;

/**
 * Hashes that are hard for the table: the hash 0, counters, equal low words, equal high words, and many that share the last
 * slots of one table, so that runs are long and go on at its front.
 */
const universe = createUniverse();

function createUniverse(): [number, number][] {
  const hashes: [number, number][] = [[0, 0]];
  for (let i = 1; i < NAMES / 4; i++) hashes.push([i, 0], [0, i]);
  for (let i = 1; hashes.length < NAMES; i++) {
    const hash: [number, number] = [Math.imul(i, 0x27d4eb2d) >>> 0, i * 7];
    if (mix(...hash) >>> 18 === 0x3fff) hashes.push(hash);
  }
  return hashes;
}

function hashesOf(names: readonly number[]): Uint32Array {
  return Uint32Array.from(names.flatMap((name) => universe[name]!));
}

function sortedBlocks(hashes: Uint32Array): string[] {
  return Array.from(
    { length: hashes.length / 2 },
    (_, i) => `${hashes[2 * i]} ${hashes[2 * i + 1]}`,
  ).toSorted();
}

function overlapsOf(index: KvIndex, owners: number, names: readonly number[]): number[] {
  const overlaps = new Uint32Array(owners).fill(7);
  index.match(hashesOf(names), overlaps);
  return [...overlaps];
}

function apply(index: KvIndex, command: Command): void {
  const { kind, owner } = command;
  if (kind === 'store') index.store(owner, hashesOf(command.names));
  else if (kind === 'remove') index.remove(owner, hashesOf(command.names));
  else if (kind === 'clear') index.clear(owner);
  else {
    const dump = index.dump(owner);
    index.clear(owner);
    index.store(owner, dump);
  }
}

/** A run of consecutive names is a chain that other commands meet again; single names make holes. */
const chain = fc
  .tuple(fc.nat(NAMES - 1), fc.integer({ min: 1, max: 1500 }))
  .map(([from, length]) =>
    Array.from({ length: Math.min(length, NAMES - from) }, (_, i) => from + i),
  );
const scattered = fc.array(fc.nat(NAMES - 1), { maxLength: 30 });
const names = fc.oneof(chain, scattered);
const owner = fc.oneof(fc.nat(7), fc.nat(70), fc.constantFrom(255, 256, 1023));
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('store'), owner, names }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('remove'), owner, names }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('clear', 'restore'), owner }) },
);

test('agrees with the plain reference after any history', () => {
  fc.assert(
    fc.property(
      fc.array(command, { maxLength: 40, size: 'max' }),
      names,
      names,
      (commands, first, second) => {
        const index = createKvIndex({ initialOwners: 1 });
        const reference = createReferenceKvIndex();
        for (const step of commands) {
          apply(index, step);
          apply(reference, step);
          assert.equal(index.blocks, reference.blocks);
          assert.equal(index.blocksOf(step.owner), reference.blocksOf(step.owner));
        }
        for (const asked of [first, [...second, ...first]]) {
          for (const owners of [1, 40, 1024]) {
            assert.deepEqual(
              overlapsOf(index, owners, asked),
              overlapsOf(reference, owners, asked),
            );
          }
        }
        const owners = new Set(commands.map((step) => step.owner));
        for (const each of owners) {
          assert.deepEqual(sortedBlocks(index.dump(each)), sortedBlocks(reference.dump(each)));
          for (const name of first.slice(0, 20)) {
            const [low, high] = universe[name]!;
            assert.equal(index.has(each, low, high), reference.has(each, low, high));
          }
          index.clear(each);
        }
        assert.equal(index.blocks, 0);
      },
    ),
    { numRuns: 60 },
  );
});

test('an index that is built from the dumps of another is its equal', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 20 }), names, (commands, asked) => {
      const index = createKvIndex();
      for (const step of commands) apply(index, step);
      const copy = createKvIndex();
      for (let each = 0; each < 1024; each++) copy.store(each, index.dump(each));
      assert.equal(copy.blocks, index.blocks);
      assert.deepEqual(overlapsOf(copy, 1024, asked), overlapsOf(index, 1024, asked));
    }),
    { numRuns: 30 },
  );
});
