import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MergeTable } from './merge-table.ts';
import { Merger } from './merger.ts';

interface Merge {
  left: number;
  right: number;
  merged: number;
}

/** The definition of BPE, word for word: find the pair with the lowest rank, the leftmost of equal ones, until there is none. */
function mergeByDefinition(symbols: readonly number[], merges: readonly Merge[]): number[] {
  const word = [...symbols];
  for (;;) {
    let best = merges.length;
    let at = -1;
    for (let i = 0; i + 1 < word.length; i++) {
      const rank = merges.findIndex(({ left, right }) => left === word[i] && right === word[i + 1]);
      if (rank >= 0 && rank < best) [best, at] = [rank, i];
    }
    if (at < 0) return word;
    word.splice(at, 2, merges[best]!.merged);
  }
}

function mergerOf(merges: readonly Merge[]): Merger {
  const table = MergeTable.withCapacity(merges.length);
  for (const [rank, { left, right, merged }] of merges.entries())
    table.set(left, right, rank, merged);
  return new Merger(table);
}

function run(merger: Merger, symbols: readonly number[]): number[] {
  merger.reserve(symbols.length);
  merger.symbols.set(symbols);
  return [...merger.symbols.subarray(0, merger.merge(symbols.length))];
}

/** Merges over a few base symbols where later ones build on earlier ones; pairs are distinct. */
const someMerges = fc
  .array(fc.tuple(fc.nat(1000), fc.nat(1000)), { maxLength: 40 })
  .map((picks) => {
    const merges: Merge[] = [];
    const seen = new Set<string>();
    for (const [a, b] of picks) {
      const known = 3 + merges.length;
      const pair = { left: a % known, right: b % known, merged: known };
      if (seen.has(`${pair.left} ${pair.right}`)) continue;
      seen.add(`${pair.left} ${pair.right}`);
      merges.push(pair);
    }
    return merges;
  });

test('merges short and long pieces as the definition does', () => {
  const word = fc.oneof(
    fc.array(fc.nat(2), { maxLength: 45 }),
    fc.array(fc.nat(2), { minLength: 41, maxLength: 160 }),
  );
  fc.assert(
    fc.property(someMerges, word, (merges, symbols) => {
      assert.deepEqual(run(mergerOf(merges), symbols), mergeByDefinition(symbols, merges));
    }),
    { numRuns: 400 },
  );
});

test('scratch memory of one piece does not leak into the next', () => {
  const merger = mergerOf([{ left: 0, right: 0, merged: 1 }]);
  assert.equal(run(merger, Array(20_000).fill(0)).length, 10_000);
  assert.deepEqual(run(merger, [0, 0, 0]), [1, 0]);
  assert.equal(run(merger, Array(100).fill(0)).length, 50);
});

test('a table keeps the later of two merges of one pair and finds nothing else', () => {
  const table = MergeTable.withCapacity(2);
  table.set(1, 2, 0, 3);
  table.set(1, 2, 7, 4);
  const slot = table.find(1, 2);
  assert.deepEqual([table.slots[slot + 2], table.slots[slot + 3]], [7, 4]);
  assert.equal(table.find(2, 1), -1);
});
