import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createSubjects,
  decodeCancel,
  decodeHeldDecisions,
  decodeKvBatch,
  decodeLifeBatch,
  decodeStreamPositions,
  decodeToken,
  decodeTokenBatch,
  decodeWork,
  encodeCancel,
  encodeHeldDecisions,
  encodeKvBatch,
  encodeLifeBatch,
  encodeStreamPositions,
  encodeStreamsQuestion,
  encodeToken,
  encodeTokenBatch,
  encodeWork,
  type KvChange,
  limit,
  ProtocolError,
  type StreamDelta,
  splitKvChanges,
} from './index.ts';
import { FINISH_REASONS } from './tokens.ts';

const words = (maxLength: number): fc.Arbitrary<Uint32Array> => fc.uint32Array({ maxLength });
const hashes = fc
  .uint32Array({ minLength: 1, maxLength: 40 })
  .map((a) => Uint32Array.from([...a, ...a]));

/** A copy at an odd offset of a larger buffer, as a network client hands it over. */
function misaligned(bytes: Uint8Array): Uint8Array {
  const buffer = new Uint8Array(bytes.length + 3);
  buffer.set(bytes, 3);
  return buffer.subarray(3);
}

const delta: fc.Arbitrary<StreamDelta> = fc
  .record({
    streamId: fc.integer({ min: 1, max: 0xffff_ffff }),
    position: fc.nat(),
    tokens: words(20),
    finish: fc.constantFrom(...FINISH_REASONS),
    cachedTokens: fc.option(fc.nat(), { nil: undefined }),
  })
  .map(({ cachedTokens, ...rest }) => {
    const base = cachedTokens === undefined ? rest : { ...rest, cachedTokens };
    return rest.finish === 'error'
      ? { ...base, error: { code: 'X', message: 'é broke', retryable: true } }
      : base;
  });

test('token batches survive the wire', () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.uniqueArray(delta, { selector: (d) => d.streamId }),
      (sequence, deltas) => {
        assert.deepEqual(decodeTokenBatch(misaligned(encodeTokenBatch({ sequence, deltas }))), {
          sequence,
          deltas,
        });
      },
    ),
  );
});

test('kv batches survive the wire', () => {
  const change: fc.Arbitrary<KvChange> = fc.oneof(
    hashes.map((h): KvChange => ({ kind: 'stored', hashes: h })),
    hashes.map((h): KvChange => ({ kind: 'removed', hashes: h })),
    fc.constant<KvChange>({ kind: 'cleared' }),
  );
  fc.assert(
    fc.property(fc.array(change), fc.nat(), (changes, epoch) => {
      const batch = { epoch, sequence: 3, dpRank: 1, tier: 'host' as const, changes };
      assert.deepEqual(decodeKvBatch(misaligned(encodeKvBatch(batch))), batch);
    }),
  );
});

test('split kv changes fit the limit and keep every hash in order', () => {
  const all = Uint32Array.from({ length: 5000 }, (_, i) => i);
  const parts = splitKvChanges(
    [{ kind: 'stored', hashes: all }, { kind: 'cleared' }, { kind: 'removed', hashes: all }],
    1000,
  );
  const seen: number[] = [];
  let cleared = 0;
  for (const changes of parts) {
    assert.ok(
      encodeKvBatch({ epoch: 1, sequence: 1, dpRank: 0, tier: 'device', changes }).length <= 1000,
    );
    for (const change of changes) {
      if (change.kind === 'cleared') cleared++;
      else seen.push(...change.hashes);
    }
  }
  assert.deepEqual(seen, [...all, ...all]);
  assert.equal(cleared, 1);
});

test('life batches give each booking its own hashes', () => {
  const booked = {
    kind: 'booked' as const,
    decisionId: 'd',
    routerId: 'r',
    workerId: 'w',
    promptTokens: 9,
    maxTokens: 1,
    expectedCachedTokens: 0,
  };
  const batch = {
    frontendId: 'f',
    events: [
      { ...booked, blocks: 1 },
      {
        kind: 'ended' as const,
        decisionId: 'd',
        workerId: 'w',
        outcome: 'completed' as const,
        outputTokens: 3,
      },
      { ...booked, blocks: 2 },
    ],
    hashes: [Uint32Array.of(1, 2), new Uint32Array(0), Uint32Array.of(3, 4, 5, 6)],
  };
  assert.deepEqual(decodeLifeBatch(misaligned(encodeLifeBatch(batch))), batch);
});

test('cancels, questions and positions are told apart', () => {
  const cancel = { frontendId: 'f', streamIds: Uint32Array.of(1, 2), isFetched: false };
  assert.deepEqual(decodeCancel(misaligned(encodeCancel('f', [1, 2]))), {
    ...cancel,
    asksStreams: false,
  });
  assert.deepEqual(decodeCancel(encodeStreamsQuestion('f')), {
    ...cancel,
    streamIds: new Uint32Array(0),
    asksStreams: true,
  });
  const positions = new Map([
    [7, 0],
    [0xffff_ffff, 12],
  ]);
  const bytes = encodeStreamPositions(positions);
  assert.deepEqual(decodeStreamPositions(misaligned(bytes)), positions);
  assert.throws(() => decodeStreamPositions(bytes.subarray(0, -4)), ProtocolError);
  assert.throws(() => decodeStreamPositions(encodeCancel('f', [1, 2])), ProtocolError);
});

test('a list of what is held fits into a message at its limits, and is refused above them', () => {
  const ids = Array.from({ length: limit('heldDecisions') }, (_, i) => `${i}`.padEnd(128, 'x'));
  const held = { from: 3, before: 9, decisionIds: ids };
  const bytes = encodeHeldDecisions(held);
  assert.ok(bytes.length < limit('messageBytes'));
  assert.deepEqual(decodeHeldDecisions(misaligned(bytes)), held);
  const tooMany = encodeHeldDecisions({ ...held, decisionIds: [...ids, 'x'] });
  assert.throws(() => decodeHeldDecisions(tooMany), ProtocolError);
});

test('any bytes give an answer or a ProtocolError, nothing else', () => {
  const decoders = [
    decodeTokenBatch,
    decodeKvBatch,
    decodeLifeBatch,
    decodeWork,
    decodeHeldDecisions,
    decodeStreamPositions,
  ];
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, versioned) => {
      if (versioned && bytes.length > 3) bytes.set([1, 0, 0, 0]);
      for (const decode of decoders) {
        try {
          decode(bytes);
        } catch (error) {
          assert.ok(error instanceof ProtocolError, String(error));
        }
      }
    }),
    { numRuns: 2000 },
  );
});

test('a frame cut at any byte is refused', () => {
  const header = {
    streamId: 1,
    frontendId: 'f',
    decisionId: 'd',
    model: 'm',
    promptTokens: 2,
    maxTokens: 1,
    sampling: {},
  };
  const bytes = encodeWork(header, Uint32Array.of(7, 8));
  assert.deepEqual(decodeWork(bytes), { header, tokens: Uint32Array.of(7, 8) });
  for (let length = 0; length < bytes.length; length++) {
    if (length % 4 === 0 && length >= bytes.length - 8) continue; // fewer whole words are a shorter prompt; the worker compares with promptTokens
    assert.throws(() => decodeWork(bytes.subarray(0, length)), ProtocolError);
  }
});

test('user text never leaves its subject token', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }), (name) => {
      const token = encodeToken(name);
      assert.match(token, /^[A-Za-z0-9_-]+$/);
      assert.equal(decodeToken(token), name.toWellFormed());
    }),
  );
  assert.equal(
    createSubjects('default').route('Qwen/Qwen3-0.6B'),
    'bb.default.route.Qwen_2FQwen3-0_2E6B',
  );
  assert.throws(() => createSubjects('a.b'), /namespace/);
  assert.throws(() => createSubjects('a').work('x.>'), /process id/);
});
