import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashBlocks } from '@busbar/blocks';
import fc from 'fast-check';
import { BlockContent, transferHashes } from './block-content.ts';
import { createDigest } from './wire.ts';

function bytesOf(content: BlockContent): Buffer {
  return Buffer.concat(Array.from({ length: content.slices }, (_, at) => content.slice(at)).flat());
}

const words = fc.integer({ min: 0, max: 0xffff_ffff });
const sizes = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 65_500, max: 65_600 }),
  fc.integer({ min: 1, max: 300_000 }),
);

test('contents are a function of hash and length, match themselves in any pieces, and nothing else', () => {
  fc.assert(
    fc.property(words, words, sizes, words, words, (low, high, bytes, cut, at) => {
      const content = new BlockContent(low, high, bytes);
      const whole = bytesOf(content);
      assert.equal(whole.length, bytes);
      assert.ok(bytesOf(new BlockContent(low, high, bytes)).equals(whole));
      const split = cut % bytes;
      assert.ok(content.matches(0, whole.subarray(0, split)));
      assert.ok(content.matches(split, whole.subarray(split)));
      assert.ok(!content.matches(0, Buffer.concat([whole, Buffer.of(0)])), 'longer than the block');
      whole[at % bytes]! ^= 1;
      assert.ok(!content.matches(0, whole), 'a changed bit');
      if (bytes >= 8) {
        const other = new BlockContent((low ^ 1) >>> 0, high, bytes);
        assert.ok(!other.matches(0, bytesOf(content)), 'another hash');
      }
    }),
    { numRuns: 200 },
  );
});

test('contents are no zeros, and differ from slice to slice', () => {
  const whole = bytesOf(new BlockContent(1, 2, 4 * 65_536));
  const counts = new Uint32Array(256);
  for (const byte of whole) counts[byte]!++;
  assert.ok(Math.max(...counts) < (whole.length / 256) * 1.3);
  const [first, second] = [whole.subarray(16, 65_536), whole.subarray(65_552, 131_072)];
  assert.ok(!first.equals(second));
});

test('the digest does not depend on the pieces, and on every bit', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 500 }),
      fc.nat(),
      fc.nat(),
      (bytes, cut, at) => {
        const whole = createDigest();
        whole.update(bytes);
        const pieces = createDigest();
        pieces.update(bytes.subarray(0, cut % bytes.length));
        pieces.update(bytes.subarray(cut % bytes.length));
        const digest = whole.finish();
        assert.equal(digest.length, 16);
        assert.deepEqual(pieces.finish(), digest);
        const changed = createDigest();
        changed.update(bytes.map((byte, index) => (index === at % bytes.length ? byte ^ 4 : byte)));
        assert.notDeepEqual(changed.finish(), digest);
      },
    ),
  );
});

test('the tokens behind the last full block have a hash of their own', () => {
  const tokens = Uint32Array.from({ length: 40 }, (_, at) => at);
  const seed = 1337n;
  const at = (length: number): Uint32Array => {
    const part = tokens.subarray(0, length);
    return transferHashes(part, hashBlocks(part, 16, seed), 16, seed);
  };
  assert.equal(at(32).length, 4);
  assert.equal(at(33).length, 6);
  assert.equal(at(5).length, 2);
  assert.deepEqual(at(40).subarray(0, 4), at(32));
  assert.notDeepEqual(at(40), at(39));
});
