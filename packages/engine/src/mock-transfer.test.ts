import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRng } from '@busbar/base';
import { PROFILES } from '@busbar/mocker';
import type { TransferParams, WorkerInfo } from '@busbar/protocol';
import { prompt, Recorder, request } from './contract-recorder.ts';
import { createMockEngine, type MockEngineOptions } from './mock-engine.ts';
import type { Engine, EngineRequest } from './port.ts';
import { probeLink } from './transfer/link-probe.ts';
import { withPeer } from './transfer/testing.ts';

const clock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
const mocker: MockEngineOptions['mocker'] = {
  blockSize: 16,
  kvBlocks: 512,
  contextTokens: 4096,
  profile: PROFILES['instant']!,
  speed: 1,
  script: [Uint32Array.of(10, 11, 12)],
  eosTokenIds: [2],
};

interface Side {
  engine: Engine;
  seen: Recorder;
  info: WorkerInfo;
}

async function start(
  role: 'prefill' | 'decode',
  changes: Partial<MockEngineOptions> = {},
): Promise<Side> {
  const transfer = { host: '127.0.0.1', port: 0 };
  const common = { model: 'm', mocker, emitKvEvents: true, clock, transfer, kvBytesPerToken: 1000 };
  const engine = createMockEngine({ ...common, role, ...changes });
  const seen = new Recorder();
  const info = await engine.start(seen, new AbortController().signal);
  return { engine, seen, info };
}

async function withSides(
  use: (prefill: Side, decode: Side) => Promise<void>,
  changes: Partial<MockEngineOptions> = {},
): Promise<void> {
  const prefill = await start('prefill', changes);
  const decode = await start('decode', changes);
  try {
    await use(prefill, decode);
    assert.deepEqual([...prefill.seen.faults, ...decode.seen.faults], []);
  } finally {
    await prefill.engine.stop();
    await decode.engine.stop();
  }
}

async function stage({ engine, seen }: Side, key: number, tokens: Uint32Array) {
  engine.submit(request(key, tokens, { stageKv: { transferId: `t${key}` } }));
  await seen.until('the prefill', () => seen.finish(key) !== undefined);
  const transfer = seen.of(key).at(-1)?.transfer;
  assert.ok(transfer?.protocol === 'tcp');
  return transfer;
}

function fetchOf(key: number, tokens: Uint32Array, transfer: TransferParams): EngineRequest {
  const kvSource = { prefillWorkerId: 'p', transfer, validForMs: 20_000 };
  return request(key, tokens, { kvSource });
}

test('says how it exchanges KV: only the prefill side has an endpoint, which answers probes', () =>
  withSides(async (prefill, decode) => {
    const transfer = prefill.info.transfer;
    assert.equal(transfer?.protocol, 'tcp');
    assert.equal(transfer.kvBytesPerToken, 1000);
    assert.equal(decode.info.transfer?.endpoint, undefined);
    assert.deepEqual(transfer.revision, decode.info.transfer?.revision);
    const { endpoint } = transfer;
    assert.ok(endpoint !== undefined);
    const probe = await probeLink(endpoint, { bytes: 100_000, timeoutMs: 5_000 });
    assert.ok(probe.bytesPerMs > 0);
    await prefill.engine.stop();
    await assert.rejects(probeLink(endpoint, { bytes: 1, timeoutMs: 5_000 }), /ECONNREFUSED/);
  }));

test('without a transfer address it is as before, and refuses both legs', async () => {
  const engine = createMockEngine({
    model: 'm',
    role: 'prefill',
    mocker,
    emitKvEvents: true,
    clock,
  });
  const seen = new Recorder();
  const info = await engine.start(seen, new AbortController().signal);
  assert.equal(info.transfer, undefined);
  const result = engine.submit(request(1, prompt(40), { stageKv: { transferId: 't' } }));
  assert.equal(result.kind === 'refused' && result.code, 'WORKER_BAD_REQUEST');
  await engine.stop();
});

test('moves the bytes of the blocks, and of those only that the decode side does not hold', () =>
  withSides(async (prefill, decode) => {
    const tokens = prompt(100);
    const transfer = await stage(prefill, 1, tokens);
    assert.equal(transfer.params.blocks, 7);
    assert.equal(transfer.params.blockBytes, 16_000);
    decode.engine.submit(request(1, tokens.subarray(0, 50)));
    await decode.seen.until('the prefix', () => decode.seen.finish(1) !== undefined);
    decode.engine.submit(fetchOf(2, tokens, transfer));
    await decode.seen.until('the answer', () => decode.seen.finish(2) !== undefined);
    assert.deepEqual(
      decode.seen.fetches.map(({ report }) => report),
      [{ outcome: 'ok', bytes: 4 * 16_000 }],
    );
    assert.equal(decode.seen.of(2)[0]?.cachedTokens, 48);
    const stored = decode.engine.blocks()[0]?.hashes.length ?? 0;
    assert.ok(stored >= 12, 'what was fetched can be reused');
    decode.engine.submit(request(3, tokens));
    await decode.seen.until('the same again', () => decode.seen.finish(3) !== undefined);
    assert.equal(decode.seen.of(3)[0]?.cachedTokens, 96);
    await prefill.seen.until('its end', () => prefill.seen.stagedEnd(1) === 'fetched');
  }));

test('a transfer id is used once at a time', () =>
  withSides(async (prefill) => {
    await stage(prefill, 1, prompt(40));
    const again = prefill.engine.submit(request(2, prompt(40), { stageKv: { transferId: 't1' } }));
    assert.equal(again.kind === 'refused' && again.message, 'the transfer id is in use');
    prefill.engine.abort(1);
    assert.equal(prefill.seen.stagedEnd(1), 'released');
    await stage(prefill, 1, prompt(40));
  }));

test('what does not fit the prompt, is of another prompt or is staged no more is lost, with a reason', () =>
  withSides(async (prefill, decode) => {
    const transfer = await stage(prefill, 1, prompt(100));
    const { params } = transfer;
    const cases: [TransferParams, RegExp][] = [
      [{ ...transfer, params: { ...params, blocks: 9 } }, /7 blocks of 16000 bytes, not 9 of/],
      [{ ...transfer, params: { ...params, blockBytes: 5 } }, /not 7 of 5/],
      [{ ...transfer, params: { ...params, transferId: 'x' } }, /no such KV is staged here/],
      [{ ...transfer, params: { ...params, endpoint: '127.0.0.1:1' } }, /ECONNREFUSED/],
    ];
    let key = 10;
    const lose = async (tokens: Uint32Array, lost: TransferParams, why: RegExp): Promise<void> => {
      decode.engine.submit(fetchOf(++key, tokens, lost));
      await decode.seen.until('its end', () => decode.seen.finish(key) === 'error');
      assert.match(decode.seen.of(key)[0]?.error?.message ?? '', why);
    };
    for (const [lost, why] of cases) await lose(prompt(100), lost, why);
    await lose(prompt(100, 5), transfer, /is of another prompt/);
    assert.equal(
      prefill.seen.stagedEnd(1),
      undefined,
      'a fetch that broke leaves it to another try',
    );
    decode.engine.submit(fetchOf(1, prompt(100), transfer));
    await decode.seen.until('its answer', () => decode.seen.finish(1) === 'length');
    await prefill.seen.until('its end', () => prefill.seen.stagedEnd(1) === 'fetched');
    await lose(prompt(100, 6), transfer, /no such KV is staged here/);
    assert.equal(decode.engine.load().activeBlocks, 0);
  }));

test('a prefill side that dies in the middle of a transfer costs the request, and nothing else', () =>
  withSides(
    async (prefill, decode) => {
      const tokens = prompt(4000);
      const transfer = await stage(prefill, 1, tokens);
      decode.engine.submit(fetchOf(1, tokens, transfer));
      await decode.seen.until('the fetch', () => decode.seen.fetches.length > 0);
      await prefill.engine.stop();
      await decode.seen.until('its end', () => decode.seen.finish(1) === 'error');
      const report = decode.seen.fetches[0]?.report;
      assert.equal(report?.outcome, 'failed');
      assert.ok(report.bytes < 4000 * 114_688);
      assert.equal(prefill.seen.stagedEnd(1), 'released');
      assert.equal(decode.engine.load().activeBlocks, 0);
      assert.equal(prefill.engine.load().activeBlocks, 0);
    },
    { kvBytesPerToken: 114_688 },
  ));

test('abort in the middle of a transfer ends it, and the staged KV stays for another try', () =>
  withPeer(
    () => {},
    async (hanging) => {
      await withSides(async (prefill, decode) => {
        const transfer = await stage(prefill, 1, prompt(100));
        const stuck = { ...transfer, params: { ...transfer.params, endpoint: hanging } };
        decode.engine.submit(fetchOf(1, prompt(100), stuck));
        await decode.seen.until('the fetch', () => decode.seen.fetches.length > 0);
        const { waiting, waitingPrefillTokens, activeBlocks } = decode.engine.load();
        assert.deepEqual([waiting, waitingPrefillTokens, activeBlocks], [1, 0, 7]);
        decode.engine.abort(1);
        await decode.seen.until('its end', () => decode.seen.finish(1) === 'cancelled');
        assert.equal(decode.seen.fetches[0]?.report?.outcome, 'cancelled');
        assert.equal(decode.engine.load().activeBlocks, 0);
        decode.engine.submit(fetchOf(2, prompt(100), transfer));
        await decode.seen.until('the answer', () => decode.seen.finish(2) === 'length');
      });
    },
  ));

test('a thousand split requests, aborted at every stage, leave no block', () =>
  withSides(
    async (prefill, decode) => {
      const rng = createRng(11);
      const run = async (key: number): Promise<void> => {
        const tokens = prompt(40 + (key % 50), key % 7);
        prefill.engine.submit(request(key, tokens, { stageKv: { transferId: `t${key}` } }));
        if (rng.int(6) === 0) prefill.engine.abort(key);
        await prefill.seen.until('it', () => prefill.seen.finish(key) !== undefined);
        const transfer = prefill.seen.of(key).at(-1)?.transfer;
        if (transfer === undefined) return;
        if (rng.int(6) === 0) prefill.engine.abort(key);
        decode.engine.submit(fetchOf(key, tokens, transfer));
        if (rng.int(6) === 0) decode.engine.abort(key);
        if (rng.int(6) === 0) setImmediate(() => decode.engine.abort(key));
        if (rng.int(6) === 0) setImmediate(() => prefill.engine.abort(key));
        await decode.seen.until('it', () => decode.seen.finish(key) !== undefined);
        prefill.engine.abort(key);
      };
      for (let key = 1; key <= 1000; key += 20) {
        await Promise.all(Array.from({ length: 20 }, (_, at) => run(key + at)));
      }
      for (const { engine, seen } of [prefill, decode]) {
        await seen.until('rest', () => engine.load().activeBlocks === 0);
        const { running, waiting, stagedBlocks } = engine.load();
        assert.deepEqual([running, waiting, stagedBlocks], [0, 0, 0]);
      }
      const ends = new Set(decode.seen.deltas.map(({ finish }) => finish));
      for (const end of ['length', 'cancelled', 'error'] as const) assert.ok(ends.has(end), end);
      const hows = new Set(prefill.seen.stagedEnds.map(({ how }) => how));
      assert.deepEqual([...hows].toSorted(), ['fetched', 'released']);
    },
    { kvBytesPerToken: 64 },
  ));
