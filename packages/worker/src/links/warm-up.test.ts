import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bus, type BusMessage, MemoryNetwork } from '@busbar/bus';
import {
  decodeCancel,
  decodeWork,
  encodeTokenBatch,
  encodeWorkAck,
  type StreamDelta,
  type WorkAck,
} from '@busbar/protocol';
import { createTestContext, type TestContext, until } from '@busbar/service/testing';
import { infoOf, nixlTransfer } from '../facts.testing.ts';
import type { Peer } from './peer-watch.ts';
import { createWarmUp } from './warm-up.ts';

const TRANSFER = nixlTransfer();
const OWN = infoOf('decode', {
  transfer: { protocol: 'nixl', revision: {}, kvBytesPerToken: 1 },
});
const PEER: Peer = { id: 'p1', epoch: 1, info: { ...OWN, role: 'prefill' } };
const NEVER = new AbortController().signal;

type Work = ReturnType<typeof decodeWork>;
type End = Partial<StreamDelta> | WorkAck | 'nothing';

interface Bench {
  context: TestContext;
  works: Work[];
  cancels: { workerId: string; streamIds: number[]; isFetched: boolean }[];
  warmUp: (signal?: AbortSignal) => Promise<void>;
}

/** Prefill worker p1 and decode worker d1, whose answers are given. */
async function withWorkers(
  ends: { p1: End; d1: End },
  use: (bench: Bench) => Promise<void>,
): Promise<void> {
  const network = new MemoryNetwork();
  const context = createTestContext('decode', network.connect(), 'd1');
  const bus: Bus = network.connect();
  const { subjects } = context;
  const works: Work[] = [];
  const cancels: Bench['cancels'] = [];
  const onWork = (workerId: string, end: End, message: BusMessage): void => {
    const work = decodeWork(message.data);
    works.push(work);
    const isRefusal = end !== 'nothing' && 'kind' in end;
    message.respond(encodeWorkAck(isRefusal ? end : { kind: 'accepted' }));
    if (isRefusal || end === 'nothing') return;
    const { streamId, frontendId } = work.header;
    const delta = { streamId, position: 0, tokens: Uint32Array.of(7), finish: 'length' as const };
    const batch = encodeTokenBatch({ sequence: 1, deltas: [{ ...delta, ...end }] });
    bus.publish(subjects.tokens(frontendId, workerId), batch);
  };
  for (const [workerId, end] of Object.entries(ends)) {
    bus.subscribe(subjects.work(workerId), (message) => onWork(workerId, end, message));
    bus.subscribe(subjects.cancel(workerId), ({ data }) => {
      const { streamIds, isFetched } = decodeCancel(data);
      cancels.push({ workerId, streamIds: [...streamIds], isFetched });
    });
  }
  const warmUp = createWarmUp(context, OWN);
  try {
    await use({ context, works, cancels, warmUp: (signal = NEVER) => warmUp(PEER, signal) });
  } finally {
    await bus.close();
    await context.bus.close();
  }
}

test('a warm-up is a split request of one block, marked as none of a client, with another prompt each time', () =>
  withWorkers({ p1: { transfer: TRANSFER }, d1: {} }, async ({ works, cancels, warmUp }) => {
    await warmUp();
    await warmUp();
    const [prefill, decode, another] = works;
    assert.ok(prefill !== undefined && decode !== undefined && another !== undefined);
    assert.ok(works.every(({ header }) => header.isWarmUp && header.maxTokens === 1));
    assert.ok(prefill.header.stageKv !== undefined);
    assert.deepEqual(decode.header.kvSource?.transfer, TRANSFER);
    assert.equal(decode.header.kvSource.prefillWorkerId, 'p1');
    assert.equal(prefill.tokens.length, 17);
    assert.deepEqual(prefill.tokens, decode.tokens);
    assert.notDeepEqual(prefill.tokens, another.tokens);
    await until('what is told of the KV', () => cancels.length === 2);
    const told = { workerId: 'p1', streamIds: [1], isFetched: true };
    assert.deepEqual(cancels, [told, told]);
  }));

test('what fails says why and leaves nothing at either side', async () => {
  const error = { code: 'WORKER_KV_LOST', message: 'the handshake failed', retryable: true };
  const busy: WorkAck = {
    kind: 'refused',
    code: 'WORKER_FULL',
    message: 'too many',
    retryable: true,
  };
  for (const [p1, d1, reason] of [
    [{}, {}, /p1 kept no KV/],
    [busy, {}, /p1 refused: too many/],
    [{ transfer: TRANSFER }, busy, /d1 refused: too many/],
    [{ transfer: TRANSFER }, { finish: 'error', error }, /d1: the handshake failed/],
  ] as const) {
    await withWorkers({ p1, d1 }, async ({ cancels, warmUp }) => {
      await assert.rejects(warmUp(), reason);
      await until('both cancels', () => cancels.length === 2);
      assert.ok(cancels.every(({ isFetched }) => !isFetched));
      assert.deepEqual(cancels.map(({ workerId }) => workerId).toSorted(), ['d1', 'p1']);
    });
  }
});

test('one without an end is given up when its time is over', () =>
  withWorkers({ p1: { transfer: TRANSFER }, d1: 'nothing' }, async ({ works, cancels, warmUp }) => {
    const stop = new AbortController();
    const running = assert.rejects(warmUp(stop.signal), /it took too long/);
    await until('the fetch', () => works.length === 2);
    stop.abort();
    await running;
    await until('both cancels', () => cancels.length === 2);
  }));

test('one whose time ended between its legs begins no second one', () =>
  withWorkers({ p1: 'nothing', d1: 'nothing' }, async ({ context, works }) => {
    const stop = new AbortController();
    const { bus, subjects } = context;
    // Its answer comes first, then the end of the time, then the acknowledgement.
    bus.subscribe(subjects.work('p2'), (message) => {
      const { streamId, frontendId } = decodeWork(message.data).header;
      const last = { streamId, position: 0, tokens: Uint32Array.of(7), finish: 'length' as const };
      const deltas = [{ ...last, transfer: TRANSFER }];
      bus.publish(subjects.tokens(frontendId, 'p2'), encodeTokenBatch({ sequence: 1, deltas }));
      setTimeout(() => {
        stop.abort();
        message.respond(encodeWorkAck({ kind: 'accepted' }));
      }, 20);
    });
    await assert.rejects(createWarmUp(context, OWN)({ ...PEER, id: 'p2' }, stop.signal), {
      name: 'AbortError',
    });
    assert.equal(works.length, 0);
  }));
