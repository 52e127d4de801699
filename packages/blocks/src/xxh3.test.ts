import assert from 'node:assert/strict';
import { test } from 'node:test';
import native from '@node-rs/xxhash';
import fc from 'fast-check';
import { xxh3 } from './index.ts';

const seedArbitrary = fc.oneof(
  fc.constant(0n),
  fc.constant(1n),
  fc.constant(1337n),
  fc.constant(2n ** 64n - 1n),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);

test('equals the reference implementation for bytes of any length and every seed', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2000, size: 'max' }), seedArbitrary, (bytes, seed) => {
      assert.equal(xxh3(bytes, seed), native.xxh3.xxh64(bytes, seed));
    }),
    { numRuns: 300 },
  );
});

test('equals the reference implementation at each length from 0 to 2000', () => {
  const bytes = Uint8Array.from({ length: 2001 }, (_, i) => Math.imul(i + 1, 0x9e3779b1) >>> 24);
  for (let length = 0; length <= 2000; length++) {
    // An odd offset, because nothing may depend on alignment.
    const input = bytes.subarray(length % 2, (length % 2) + length);
    const seed = BigInt(length) * 0x1_2345_6789_abcdn;
    assert.equal(xxh3(input, seed), native.xxh3.xxh64(input, seed), `length ${length}`);
    assert.equal(xxh3(input), native.xxh3.xxh64(input, 0n), `length ${length}, no seed`);
  }
});

test('takes the low 64 bits of a seed', () => {
  const bytes = Uint8Array.of(1, 2, 3);
  assert.equal(xxh3(bytes, 2n ** 64n + 5n), xxh3(bytes, 5n));
  assert.equal(xxh3(bytes, -1n), xxh3(bytes, 2n ** 64n - 1n));
});
