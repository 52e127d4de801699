import assert from 'node:assert/strict';
import { test } from 'node:test';
import native from '@node-rs/xxhash';
import fc from 'fast-check';
import { BlockHasher, hashBlocks, hashSeed, localBlockHash } from './index.ts';

function tokensOf(...tokens: number[]): Uint32Array {
  return Uint32Array.from(tokens);
}

function toBigInts(words: Uint32Array): bigint[] {
  return Array.from({ length: words.length / 2 }, (_, i) => {
    return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
  });
}

/** The definition, by the reference implementation of the hash. */
function expectedHashes(tokens: Uint32Array, blockSize: number, seed: bigint): bigint[] {
  const hashes: bigint[] = [];
  for (let at = 0; at + blockSize <= tokens.length; at += blockSize) {
    const bytes = new Uint8Array(tokens.slice(at, at + blockSize).buffer);
    const local = native.xxh3.xxh64(bytes, seed);
    const parent = hashes.at(-1);
    const pair = new Uint8Array(BigUint64Array.of(parent ?? 0n, local).buffer);
    hashes.push(parent === undefined ? local : native.xxh3.xxh64(pair, 1337n));
  }
  return hashes;
}

test('equals the vectors that Dynamo publishes', () => {
  const seed = hashSeed();
  assert.equal(localBlockHash(tokensOf(1, 2, 3, 4), seed), 14643705804678351452n);
  assert.equal(localBlockHash(tokensOf(5, 6, 7, 8), seed), 16777012769546811212n);
  assert.equal(localBlockHash(tokensOf(9, 10, 11, 12), seed), 483935686894639516n);
  const prompt = tokensOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
  assert.deepEqual(toBigInts(hashBlocks(prompt, 4, seed)), [
    14643705804678351452n,
    4945711292740353085n,
    12583592247330656132n,
  ]);
});

const tokensArbitrary = fc
  .array(fc.integer({ min: 0, max: 0xffff_ffff }), { maxLength: 300, size: 'max' })
  .map((tokens) => Uint32Array.from(tokens));
const seedArbitrary = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });

test('equals the definition for every block size, seed and alignment', () => {
  const sizes = fc.oneof(fc.integer({ min: 1, max: 70 }), fc.constant(16));
  fc.assert(
    fc.property(tokensArbitrary, sizes, seedArbitrary, (tokens, blockSize, seed) => {
      const expected = expectedHashes(tokens, blockSize, seed);
      assert.deepEqual(toBigInts(hashBlocks(tokens, blockSize, seed)), expected);
      const shifted = new Uint32Array(tokens.length + 1);
      shifted.set(tokens, 1);
      assert.deepEqual(toBigInts(hashBlocks(shifted.subarray(1), blockSize, seed)), expected);
    }),
    { numRuns: 300 },
  );
});

test('a chain that is continued equals the chain of the whole', () => {
  fc.assert(
    fc.property(tokensArbitrary, fc.integer({ min: 1, max: 40 }), fc.nat(), (tokens, size, cut) => {
      const hasher = new BlockHasher(size, hashSeed());
      const whole = hasher.hash(tokens);
      const blocks = whole.length / 2;
      const head = blocks === 0 ? 0 : cut % blocks;
      const first = hasher.hash(tokens.subarray(0, head * size));
      const low = first.at(-2);
      const high = first.at(-1);
      const parent = low === undefined || high === undefined ? undefined : { low, high };
      const rest = hasher.hash(tokens.subarray(head * size), parent);
      assert.deepEqual([...first, ...rest], [...whole]);
    }),
  );
});

test('a partial block has no hash', () => {
  assert.equal(hashBlocks(tokensOf(), 16, hashSeed()).length, 0);
  assert.equal(hashBlocks(new Uint32Array(15), 16, hashSeed()).length, 0);
  assert.equal(hashBlocks(new Uint32Array(33), 16, hashSeed()).length, 4);
  assert.throws(() => hashBlocks(new Uint32Array(4), 0, hashSeed()), /block size 0/);
});

test('blocks of another LoRA or salt never match, equal names included', () => {
  const identities = [
    {},
    { lora: 'A' },
    { lora: 'B' },
    { cacheSalt: 'A' },
    { lora: 'A', cacheSalt: 'S' },
    { lora: 'S', cacheSalt: 'A' },
  ];
  const tokens = Uint32Array.from({ length: 64 }, (_, i) => i);
  const seen = new Set<bigint>();
  for (const identity of identities) {
    const hashes = toBigInts(hashBlocks(tokens, 16, hashSeed(identity)));
    assert.equal(hashes.length, 4);
    for (const hash of hashes) seen.add(hash);
    assert.deepEqual(toBigInts(hashBlocks(tokens, 16, hashSeed({ ...identity }))), hashes);
  }
  assert.equal(seen.size, 4 * identities.length);
  assert.equal(hashSeed({ lora: '', cacheSalt: '' }), hashSeed());
});
