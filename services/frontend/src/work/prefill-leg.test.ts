import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limit, type StreamDelta } from '@busbar/protocol';
import fc from 'fast-check';
import { FrontendError } from '../errors.ts';
import { scriptedCandidate } from '../scripted-candidate.testing.ts';
import { transferOf } from '../scripted-worker.testing.ts';
import { type PrefillHost, PrefillLeg } from './prefill-leg.ts';
import { partEnds } from './work-sender.ts';

/** A leg that began at 1,000 ms, and what it has called. */
function begin(): { leg: PrefillLeg; calls: string[] } {
  const calls: string[] = [];
  const host: PrefillHost = {
    open: () => 7,
    close: () => calls.push('close'),
    cancel: () => calls.push('cancel'),
    fetched: () => calls.push('fetched'),
    firstToken: (own, ttftMs) => calls.push(`first ${ttftMs} ${own.cachedTokens}`),
    ended: (_, { outcome, cachedTokens }) => calls.push(`ended ${outcome} ${cachedTokens}`),
    staged: (_, seconds) => calls.push(`staged ${seconds}`),
    splitEnded: (outcome) => calls.push(`split ${outcome}`),
  };
  const place = {
    decisionId: 'd.p',
    workerId: 'prefill-1',
    expectedCachedTokens: 0,
    onFailure: 'prefill-locally' as const,
  };
  return { leg: new PrefillLeg(scriptedCandidate(), place, host, 1_000), calls };
}

function delta(change: Partial<StreamDelta>): StreamDelta {
  return { streamId: 7, position: 0, tokens: Uint32Array.of(1), finish: 'length', ...change };
}

test('staged KV is offered until it may be gone, with the time that is left', async () => {
  const { leg, calls } = begin();
  assert.equal(leg.kvSource(1_000), undefined);
  leg.accept(delta({ transfer: transferOf('t'), cachedTokens: 4 }), 1_500);
  assert.deepEqual(await leg.result, { kind: 'staged' });
  assert.deepEqual(calls, ['first 500 4', 'close', 'ended completed undefined', 'staged 0.5']);
  assert.deepEqual(leg.kvSource(2_500), {
    prefillWorkerId: 'prefill-1',
    transfer: transferOf('t'),
    validForMs: limit('stagedKvMs') - 1_000,
  });
  assert.equal(leg.kvSource(1_500 + limit('stagedKvMs')), undefined);
  leg.giveUp('local');
  leg.giveUp('cancelled');
  assert.equal(leg.kvSource(1_600), undefined);
  assert.deepEqual(calls.slice(4), ['split local', 'cancel']);
});

test('KV that was handed over is never given up', () => {
  const { leg, calls } = begin();
  leg.accept(delta({ transfer: transferOf('t') }), 1_500);
  leg.handOver();
  leg.giveUp('cancelled');
  assert.deepEqual(calls.slice(3), ['staged 0.5', 'split fetched']);
});

test('a prefill engine that hears of no fetch is told of it, once', () => {
  const { leg, calls } = begin();
  const params = {
    do_remote_prefill: true as const,
    do_remote_decode: false as const,
    remote_block_ids: [[1]],
    remote_engine_id: 'e',
    remote_host: 'h',
    remote_port: 1,
  };
  leg.accept(delta({ transfer: { protocol: 'nixl', params } }), 1_500);
  leg.handOver();
  leg.handOver();
  leg.giveUp('cancelled');
  assert.deepEqual(calls.slice(3), ['staged 0.5', 'fetched', 'split fetched']);
});

test('a token first and the end later: told once each, the cache with whichever has it', async () => {
  const { leg, calls } = begin();
  leg.accept(delta({ finish: 'none' }), 1_100);
  leg.accept(
    delta({
      position: 1,
      tokens: new Uint32Array(0),
      transfer: transferOf('t'),
      cachedTokens: 3,
    }),
    1_200,
  );
  assert.deepEqual(await leg.result, { kind: 'staged' });
  assert.deepEqual(calls.slice(0, 3), ['first 100 undefined', 'close', 'ended completed 3']);
});

test('parameters above the limit fail the leg, and what was staged is given up', async () => {
  const { leg, calls } = begin();
  const blockIds = Array.from({ length: 50_000 }, (_, i) => 100_000 + i);
  const params = {
    do_remote_prefill: true as const,
    do_remote_decode: false as const,
    remote_block_ids: [blockIds],
    remote_engine_id: 'e',
    remote_host: 'h',
    remote_port: 1,
  };
  leg.accept(delta({ transfer: { protocol: 'nixl', params } }), 1_100);
  const result = await leg.result;
  assert.ok(result.kind === 'failed' && result.error.code === 'FRONTEND_NOT_STAGED');
  assert.deepEqual(calls.slice(1), ['close', 'ended failed undefined', 'cancel']);
  leg.lose(new FrontendError('FRONTEND_WORKER_LOST', 'gone'));
  leg.giveUp('cancelled');
  assert.equal(calls.filter((call) => call.startsWith('ended')).length, 1);
});

test('parts of a prompt: all of it in order, none empty, none above the limit', () => {
  const header = 65_536;
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: limit('promptTokens') }),
      fc.integer({ min: 0, max: limit('transferParamsBytes') + 1_024 }),
      (tokens, lastBytes) => {
        const ends = partEnds(tokens, lastBytes);
        assert.equal(ends.at(-1), tokens);
        ends.forEach((end, part) => {
          const size = end - (ends[part - 1] ?? 0);
          const extra = part === ends.length - 1 ? lastBytes : 0;
          assert.ok(size > 0 && header + extra + size * 4 <= limit('messageBytes'));
        });
        assert.ok(ends.length <= 7);
      },
    ),
  );
  assert.deepEqual(partEnds(5, 0), [5]);
});
