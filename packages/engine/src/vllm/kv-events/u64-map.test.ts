import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { U64Map } from './u64-map.ts';

const keyArbitrary = fc.oneof(
  fc.bigInt({ min: 0n, max: 40n }),
  // Equal in one half.
  fc.bigInt({ min: 0n, max: 40n }).map((high) => high << 32n),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);
const stepArbitrary = fc.tuple(fc.constantFrom('set', 'set', 'delete'), keyArbitrary, fc.nat());

test('equals a Map', () => {
  fc.assert(
    fc.property(fc.array(stepArbitrary, { maxLength: 600, size: 'max' }), (steps) => {
      const map = new U64Map<number>();
      const expected = new Map<bigint, number>();
      for (const [kind, key, value] of steps) {
        if (kind === 'set') {
          map.set(key, value);
          expected.set(key, value);
        } else assert.equal(map.delete(key), expected.delete(key));
        assert.equal(map.size, expected.size);
      }
      for (const [, key] of steps) assert.equal(map.get(key), expected.get(key));
      const values: number[] = [];
      map.forEach((value) => values.push(value));
      const byValue = (a: number, b: number): number => a - b;
      assert.deepEqual(values.toSorted(byValue), [...expected.values()].toSorted(byValue));
    }),
  );
});

test('grows, and gives memory back when it is emptied', () => {
  const map = new U64Map<number>();
  for (let i = 0; i < 50_000; i++) map.set(BigInt(i) * 0x1_0000_0001n, i);
  for (let i = 0; i < 50_000; i++) assert.equal(map.get(BigInt(i) * 0x1_0000_0001n), i);
  for (let i = 0; i < 49_990; i++) assert.equal(map.delete(BigInt(i) * 0x1_0000_0001n), true);
  assert.equal(map.size, 10);
  for (let i = 49_990; i < 50_000; i++) assert.equal(map.get(BigInt(i) * 0x1_0000_0001n), i);
  map.clear();
  assert.equal(map.size, 0);
  assert.equal(map.get(0n), undefined);
});
