import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashBlocks, hashSeed } from '@busbar/blocks';
import type { Tier } from '@busbar/protocol';
import type { StoredEvent } from './events.ts';
import { decoded, payloadsOf, recordedEvents, recordedHash } from './fixtures.testing.ts';
import { RankBlocks } from './rank-blocks.ts';

const SIZE = 4;
const TOKENS = Uint32Array.from({ length: 4 * SIZE }, (_, i) => i + 1);

function stored(changed: Partial<StoredEvent> = {}): StoredEvent {
  const hashes = changed.hashes ?? [1n, 2n];
  return {
    kind: 'stored',
    hashes,
    parent: undefined,
    tokens: TOKENS.subarray(0, hashes.length * SIZE),
    blockSize: SIZE,
    tier: 'device',
    group: undefined,
    groupKind: undefined,
    lora: undefined,
    hasUnnamedLora: false,
    extraKeys: undefined,
    ...changed,
  };
}

function names(words: Uint32Array): bigint[] {
  return Array.from({ length: words.length / 2 }, (_, i) => {
    return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
  });
}

function held(blocks: RankBlocks, tier: Tier = 'device'): Set<bigint> {
  const own = blocks.blocks().find((entry) => entry.tier === tier);
  return new Set(names(own?.hashes ?? new Uint32Array()));
}

function expectedNames(blocks: number, identity = {}): Set<bigint> {
  return new Set(names(hashBlocks(TOKENS.subarray(0, blocks * SIZE), SIZE, hashSeed(identity))));
}

/** The blocks that a recording implies: each stored block by all tokens before it, each removal taken from a multiset. */
function impliedBlocks(recording: string, until: number): Set<bigint> {
  const paths = new Map<bigint, { tokens: number[]; lora?: string; cacheSalt?: string }>();
  let multiset: bigint[] = [];
  for (const event of recordedEvents(recording).slice(0, until).flat()) {
    if (event.type === 'AllBlocksCleared') multiset = [];
    else if (event.type === 'BlockRemoved') {
      for (const hash of event.block_hashes.map(recordedHash)) {
        multiset.splice(multiset.indexOf(hash), 1);
      }
    } else {
      const parent = event.parent_block_hash ? recordedHash(event.parent_block_hash) : undefined;
      const lora = event.lora_name ?? '';
      const salt = event.extra_keys?.[0]?.find((key) => key !== lora) ?? '';
      let path = (parent === undefined ? undefined : paths.get(parent)) ?? {
        tokens: [],
        lora,
        cacheSalt: salt,
      };
      for (const [i, hash] of event.block_hashes.map(recordedHash).entries()) {
        const own = event.token_ids.slice(i * 32, (i + 1) * 32);
        path = { ...path, tokens: [...path.tokens, ...own] };
        paths.set(hash, path);
        multiset.push(hash);
      }
    }
  }
  return new Set(
    multiset.map((hash) => {
      const { tokens, ...identity } = paths.get(hash)!;
      return names(hashBlocks(Uint32Array.from(tokens), 32, hashSeed(identity))).at(-1)!;
    }),
  );
}

test('after each recorded message it holds exactly the blocks that the recording implies', () => {
  const blocks = new RankBlocks();
  const sizes: number[] = [];
  for (const [i, payload] of payloadsOf('agg-*.msgpack').entries()) {
    const applied = blocks.apply(decoded(payload));
    assert.equal(applied.orphanBlocks + applied.ignoredEvents, 0);
    assert.deepEqual(held(blocks), impliedBlocks('agg', i + 1), `after message ${i}`);
    sizes.push(held(blocks).size);
  }
  // Seen by eye in the recording: one hash twice (1, 2) and removed twice (10), cleared (12, 15), stored again (18 to 20).
  assert.deepEqual(sizes, [1, 2, 2, 5, 6, 8, 11, 15, 30, 45, 47, 47, 3, 6, 8, 1, 2, 3, 3, 3, 3]);
  assert.equal(blocks.blockSize, 32);
});

test('hashes as bytes name the same blocks; a salt keeps them apart', () => {
  const blocks = new RankBlocks();
  for (const payload of payloadsOf('bytes-sha256cbor-*.msgpack')) blocks.apply(decoded(payload));
  assert.deepEqual(held(blocks), impliedBlocks('bytes-sha256cbor', 3));
  assert.equal(held(blocks).size, 6);
});

test('a block that is stored twice is gone when it is removed twice', () => {
  const blocks = new RankBlocks();
  const removed = { kind: 'removed', hashes: [1n], tier: 'device', group: undefined } as const;
  blocks.apply([stored({ hashes: [1n] }), stored({ hashes: [1n] })]);
  assert.deepEqual(blocks.apply([removed]).changes, []);
  assert.deepEqual(held(blocks), expectedNames(1));
  assert.equal(blocks.apply([removed]).removedBlocks, 1);
  assert.deepEqual(held(blocks), new Set());
  assert.deepEqual(blocks.apply([removed]).changes, []);
});

test('two engine hashes of one block count as one until both are gone', () => {
  const blocks = new RankBlocks();
  const removed = (hash: bigint) =>
    ({ kind: 'removed', hashes: [hash], tier: 'device', group: undefined }) as const;
  blocks.apply([stored({ hashes: [1n] })]);
  assert.deepEqual(blocks.apply([stored({ hashes: [2n] })]).changes, []);
  assert.deepEqual(blocks.apply([removed(1n)]).changes, []);
  assert.deepEqual(held(blocks), expectedNames(1));
  assert.equal(blocks.apply([removed(2n)]).changes.length, 1);
  assert.deepEqual(held(blocks), new Set());
});

test('adapter and salt go into the hash of the first block and of all that follow', () => {
  const lora = { lora: 'ad1', extraKeys: [['ad1', 'tenant'], ['ad1']] };
  const rest = { hashes: [3n], parent: 2n, tokens: TOKENS.subarray(2 * SIZE, 3 * SIZE) };
  const blocks = new RankBlocks();
  blocks.apply([stored(lora), stored({ ...rest, lora: 'ad1', extraKeys: [['ad1']] })]);
  assert.deepEqual(held(blocks), expectedNames(3, { lora: 'ad1', cacheSalt: 'tenant' }));
});

test('blocks with inputs that a router cannot see are kept but never told', () => {
  const image = [['image-hash', 3]];
  for (const changed of [
    { extraKeys: [image, undefined] },
    { extraKeys: [['salt', 'more'], undefined] },
    { hasUnnamedLora: true },
  ]) {
    const blocks = new RankBlocks();
    assert.equal(blocks.apply([stored(changed)]).ignoredEvents, 1);
    const next = stored({ hashes: [3n], parent: 2n });
    assert.equal(blocks.apply([next]).orphanBlocks, 0);
    assert.deepEqual(held(blocks), new Set());
    assert.equal(blocks.size, 3);
  }
  const blocks = new RankBlocks();
  blocks.apply([stored({ hashes: [1n, 2n, 3n], extraKeys: [undefined, image, undefined] })]);
  assert.deepEqual(held(blocks), expectedNames(1));
});

test('only the group with full attention counts', () => {
  const blocks = new RankBlocks();
  const window = stored({ group: 0, groupKind: 'sliding_window', hashes: [8n] });
  const full = stored({ group: 1, groupKind: 'full_attention', hashes: [1n] });
  const twin = stored({ group: 2, groupKind: 'full_attention', hashes: [1n] });
  assert.equal(blocks.apply([window, full, twin]).ignoredEvents, 2);
  const removed = { kind: 'removed', hashes: [1n], tier: 'device' } as const;
  assert.equal(
    blocks.apply([
      { ...removed, group: 0 },
      { ...removed, group: 2 },
    ]).removedBlocks,
    0,
  );
  assert.deepEqual(held(blocks), expectedNames(1));
  assert.equal(blocks.apply([{ ...removed, group: 1 }]).removedBlocks, 1);
  const latent = new RankBlocks();
  latent.apply([stored({ group: 0, groupKind: 'mla_attention', hashes: [1n] })]);
  assert.deepEqual(held(latent), expectedNames(1));
});

test('blocks moved to another tier without their tokens are known by the tier they came from', () => {
  const blocks = new RankBlocks();
  const moved = { tier: 'host', tokens: new Uint32Array(), blockSize: 0 } as const;
  blocks.apply([stored()]);
  assert.equal(blocks.apply([stored({ ...moved, hashes: [2n, 77n] })]).ignoredEvents, 1);
  assert.equal(held(blocks, 'host').size, 1);
  blocks.apply([{ kind: 'removed', hashes: [1n, 2n], tier: 'device', group: undefined }]);
  assert.equal(held(blocks).size, 0);
  assert.equal(held(blocks, 'host').size, 1);
  // The block in the host's memory is a parent as good as any.
  const next = stored({
    hashes: [3n],
    parent: 2n,
    tokens: TOKENS.subarray(2 * SIZE, 3 * SIZE),
  });
  assert.equal(blocks.apply([next]).orphanBlocks, 0);
  assert.ok([...held(blocks)].every((name) => expectedNames(3).has(name)));
  assert.deepEqual(
    blocks.clear().map(({ tier, changes }) => [tier, changes]),
    [
      ['device', [{ kind: 'cleared' }]],
      ['host', [{ kind: 'cleared' }]],
    ],
  );
});

test('a chain whose parent is unknown is not told, except from a known block on', () => {
  const blocks = new RankBlocks();
  const orphan = stored({ hashes: [5n, 6n], parent: 4n });
  assert.equal(blocks.apply([orphan]).orphanBlocks, 2);
  assert.equal(blocks.size, 0);
  blocks.apply([stored({ hashes: [1n, 2n] })]);
  const joined = stored({
    hashes: [99n, 2n, 3n],
    parent: 98n,
    tokens: Uint32Array.from([0, 0, 0, 0, ...TOKENS.subarray(SIZE, 3 * SIZE)]),
  });
  assert.equal(blocks.apply([joined]).orphanBlocks, 1);
  assert.deepEqual(held(blocks), expectedNames(3));
});

test('another block size is refused, a block that is not full ignored', () => {
  const blocks = new RankBlocks();
  blocks.expectBlocks(2 * SIZE);
  const applied = blocks.apply([stored()]);
  assert.equal(applied.otherBlockSize, SIZE);
  assert.deepEqual(applied.changes, []);
  const partial = stored({ hashes: [1n], tokens: TOKENS.subarray(0, 3), blockSize: 2 * SIZE });
  assert.equal(blocks.apply([partial]).ignoredEvents, 1);
  assert.equal(blocks.size, 0);
});

test('more blocks than any engine has are dropped, and it says so', () => {
  const blocks = new RankBlocks(1);
  const applied = blocks.apply([stored()]);
  assert.equal(applied.isOverfull, true);
  assert.deepEqual(applied.changes, [{ tier: 'device', changes: [{ kind: 'cleared' }] }]);
  assert.equal(blocks.size, 0);
});

test('blocks that are told again as "full" reports do not stay for ever: each counts once when there are more than the engine has', () => {
  const [first, salted, again] = payloadsOf('bytes-sha256cbor-*.msgpack').map(decoded);
  const blocks = new RankBlocks();
  blocks.expectBlocks(32, 6);
  assert.equal(blocks.apply([...first!, ...salted!]).storedBlocks, 6);
  const over = blocks.apply(again!);
  assert.equal(over.isOvercounted, true);
  assert.deepEqual(over.changes, [{ tier: 'device', changes: [{ kind: 'cleared' }] }]);
  // A second report is no second reference any more: one removal, and the block is gone.
  assert.equal(blocks.apply([...first!, ...again!, ...again!]).isOvercounted, undefined);
  const [event] = first!;
  assert.ok(event?.kind === 'stored');
  const { hashes, tier, group } = event;
  const removed = blocks.apply([{ kind: 'removed', hashes, tier, group }]);
  assert.equal(removed.removedBlocks, 3);
  assert.deepEqual(held(blocks), new Set());
});

test('as many references as the engine has blocks are right, also when one hash has several', () => {
  const blocks = new RankBlocks();
  blocks.expectBlocks(SIZE, 4);
  const removed = { kind: 'removed', hashes: [2n, 1n], tier: 'device', group: undefined } as const;
  for (let round = 0; round < 5; round++) {
    assert.equal(blocks.apply([stored(), stored()]).isOvercounted, undefined);
    blocks.apply([removed]);
    assert.deepEqual(held(blocks), expectedNames(2), 'the second pair is there still');
    blocks.apply([removed]);
    assert.deepEqual(held(blocks), new Set());
  }
});
