import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limit } from '@busbar/protocol';
import fc from 'fast-check';
import { candidateSeed, parseCompletionRequest, parseJsonObject } from './index.ts';

const LEAST = -(2n ** 63n);
const MOST = 2n ** 63n - 1n;

function seedOf(digits: string): number {
  const parsed = parseJsonObject(`{"model":"m","prompt":"x","seed":${digits}}`);
  const checked = parsed.ok ? parseCompletionRequest(parsed.value) : parsed;
  assert.ok(checked.ok, digits);
  return checked.value.params.sampling.seed!;
}

test('every seed of 64 bits is taken, and each candidate has one of its own that engines can read', () => {
  const seed = fc.oneof(
    fc.bigInt({ min: LEAST, max: MOST }),
    fc.constantFrom(LEAST, MOST, 2n ** 53n - 1n, 2n ** 53n, -(2n ** 53n), 10n ** 18n, 0n),
  );
  const count = limit('candidates');
  fc.assert(
    fc.property(seed, (digits) => {
      const first = seedOf(String(digits));
      assert.equal(first, seedOf(String(digits)), 'repeatable');
      const own = Array.from({ length: count }, (_, index) => candidateSeed(first, index));
      assert.equal(own[0], first);
      assert.equal(new Set(own).size, count);
      for (const one of own) {
        // What an engine reads are the digits, which are not always those of the number.
        const read = BigInt(JSON.stringify(one));
        assert.ok(read >= LEAST && read <= MOST, String(read));
      }
    }),
  );
});

test('what a number holds stays as it is', () => {
  for (const digits of [0, -1, 7, Number.MAX_SAFE_INTEGER, 1e18]) {
    assert.equal(seedOf(String(digits)), digits);
  }
  assert.deepEqual(
    [0, 1, 2].map((index) => candidateSeed(7, index)),
    [7, 8, 9],
  );
});
