import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Encoder } from '@msgpack/msgpack';
import fc from 'fast-check';
import { decodeKvEvents } from './decode.ts';
import type { VllmKvEvent } from './events.ts';
import { decoded, payloadsOf, recordedEvents, recordedHash } from './fixtures.testing.ts';

const encoder = new Encoder({ useBigInt64: true });

function batchOf(...events: unknown[]): Uint8Array {
  return encoder.encode([1795988636.25, events, 0]);
}

function storedFields(changed: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    type: 'BlockStored',
    block_hashes: [1],
    parent_block_hash: null,
    token_ids: [1, 2],
    block_size: 2,
    lora_id: null,
    medium: 'GPU',
    lora_name: null,
    ...changed,
  };
}

for (const name of ['agg', 'bytes-sha256cbor']) {
  test(`reads ${name} as Python does`, () => {
    const messages = payloadsOf(`${name}-*.msgpack`).map(decoded);
    const recorded = recordedEvents(name);
    assert.equal(messages.length, recorded.length);
    for (const [i, events] of messages.entries()) {
      assert.equal(events.length, recorded[i]!.length);
      for (const [k, event] of events.entries()) {
        const expected = recorded[i]![k]!;
        const hashes = expected.block_hashes.map(recordedHash);
        if (expected.type === 'AllBlocksCleared') assert.deepEqual(event, { kind: 'cleared' });
        else if (expected.type === 'BlockRemoved') {
          assert.deepEqual(event, { kind: 'removed', hashes, tier: 'device', group: 0 });
        } else {
          assert.equal(event.kind, 'stored');
          assert.partialDeepStrictEqual(event, {
            hashes,
            tokens: Uint32Array.from(expected.token_ids),
            blockSize: 32,
            tier: 'device',
            group: 0,
            groupKind: 'full_attention',
          });
          assert.deepEqual(
            event.kind === 'stored' && event.parent,
            expected.parent_block_hash ? recordedHash(expected.parent_block_hash) : undefined,
          );
        }
      }
    }
  });
}

test('reads the array form of every older release', () => {
  const expected = [16226325719775847723n, 71115387790518696n, 2801130523069810019n];
  const payloads = payloadsOf('synthetic-*.msgpack');
  assert.equal(payloads.length, 4);
  for (const payload of payloads) {
    const [removed, stored, cleared] = decoded(payload);
    assert.partialDeepStrictEqual(removed, { kind: 'removed', hashes: [expected[2]] });
    assert.partialDeepStrictEqual(stored, { kind: 'stored', hashes: expected, blockSize: 32 });
    assert.equal(stored?.kind === 'stored' && stored.tokens.length, 96);
    assert.deepEqual(cleared, { kind: 'cleared' });
  }
});

test('a hash is exact in every size and form', () => {
  const hashes = [0, 1, 2 ** 32, 2 ** 53 - 1, 2n ** 53n + 1n, 2n ** 64n - 1n, -1n];
  const bytes = Uint8Array.from({ length: 32 }, (_, i) => i);
  const event = decoded(
    batchOf({ type: 'BlockRemoved', block_hashes: [...hashes, bytes], medium: null }),
  )[0];
  assert.deepEqual(event?.kind === 'removed' && event.hashes, [
    0n,
    1n,
    2n ** 32n,
    2n ** 53n - 1n,
    2n ** 53n + 1n,
    2n ** 64n - 1n,
    2n ** 64n - 1n,
    0x18191a1b1c1d1e1fn,
  ]);
});

test('each memory has its tier, and what is not known is named and skipped', () => {
  const kinds = (medium: unknown): VllmKvEvent | undefined =>
    decoded(batchOf(storedFields({ medium, a_new_field: { deep: [1] } })))[0];
  const tiers = [null, 'GPU', 'CPU', 'STORAGE', 'FS', 'OBJ', 'gpu'].map((medium) => {
    const event = kinds(medium);
    return event?.kind === 'stored' ? event.tier : event?.kind;
  });
  assert.deepEqual(tiers, ['device', 'device', 'host', 'disk', 'disk', 'disk', 'device']);
  assert.deepEqual(kinds('TAPE'), { kind: 'unknown', what: 'medium TAPE' });
  assert.deepEqual(decoded(batchOf({ type: 'BlockMoved' }, ['BlockLost', 1])), [
    { kind: 'unknown', what: 'event BlockMoved' },
    { kind: 'unknown', what: 'event BlockLost' },
  ]);
});

test('a field of the wrong type makes the whole frame bad', () => {
  const wrong: unknown[] = [
    storedFields({ block_hashes: 'x' }),
    storedFields({ block_hashes: [1.5] }),
    storedFields({ block_hashes: [new Uint8Array(4)] }),
    storedFields({ token_ids: [-1] }),
    storedFields({ token_ids: [2 ** 32] }),
    storedFields({ token_ids: null }),
    storedFields({ block_size: 'x' }),
    storedFields({ medium: 1 }),
    storedFields({ lora_name: 1 }),
    storedFields({ extra_keys: [1] }),
    storedFields({ group_idx: 'x' }),
    ['BlockStored'],
    [],
    1,
    null,
    {},
    { type: 1 },
  ];
  for (const event of wrong) assert.equal(decodeKvEvents(batchOf(event)).ok, false);
  for (const root of [1, [], [1], [1, 2], { a: 1 }]) {
    assert.equal(decodeKvEvents(encoder.encode(root)).ok, false);
  }
});

test('a frame that is cut anywhere is bad', () => {
  for (const payload of payloadsOf('*.msgpack')) {
    for (let length = 0; length < payload.length; length++) {
      assert.equal(decodeKvEvents(payload.subarray(0, length)).ok, false, `${length} bytes`);
    }
  }
});

test('no bytes make it throw, or believe a length that is not there', () => {
  const payloads = payloadsOf('agg-*.msgpack');
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc
      .tuple(fc.constantFrom(...payloads), fc.array(fc.tuple(fc.nat(), fc.nat(255))))
      .map(([payload, flips]) => {
        const changed = Uint8Array.from(payload);
        for (const [at, value] of flips) changed[at % changed.length] = value;
        return changed;
      }),
  );
  fc.assert(
    fc.property(bytes, (payload) => {
      const result = decodeKvEvents(payload);
      assert.ok(result.ok || result.reason.length > 0);
    }),
    { numRuns: 2_000 },
  );
  // An array of 2^32 - 1 elements, of which none comes.
  const liar = Uint8Array.of(0x93, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff);
  assert.equal(decodeKvEvents(liar).ok, false);
});
