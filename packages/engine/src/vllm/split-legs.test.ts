import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseTransferParams, type TransferParams } from '@busbar/protocol';
import { transferContract } from '../contract.ts';
import type { EngineRequest } from '../port.ts';
import { until } from '../until.testing.ts';
import {
  Heard,
  optionsFor,
  prompt,
  request,
  startFake,
  withEngine,
} from './engine-harness.testing.ts';
import type { FakeVllm } from './fake-vllm.testing.ts';
import type { VllmEngineOptions } from './options.ts';
import { createVllmEngine } from './vllm-engine.ts';

const TRANSFER: NonNullable<VllmEngineOptions['transfer']> = {
  protocol: 'nixl',
  host: '127.0.0.1',
  port: 0,
  bufferDevice: 'cpu',
  leaseMs: 25_000,
};

/** The adapter counts off staged KV a second behind its lease; the fake's own is long enough for a slow machine to fetch in time. */
const FAKE_LEASE_MS = 900;
transferContract(
  'vllm',
  async ({ stagedKvMs, ...sizes }) => {
    const leaseMs = Math.max(stagedKvMs, FAKE_LEASE_MS);
    const prefillFake = await startFake({ ...sizes, hasConnector: true, leaseMs });
    const decodeFake = await startFake(sizes);
    const common = { kvBytesPerToken: 256, transfer: { ...TRANSFER, leaseMs: stagedKvMs } };
    return {
      prefill: createVllmEngine(optionsFor(prefillFake, { ...common, role: 'prefill' })),
      decode: createVllmEngine(optionsFor(decodeFake, common)),
      loseKv: () => prefillFake.loseKv(),
    };
  },
  { endsStagedAtOnce: false },
);

describe('both legs of a split request', () => {
  const kvBytesPerToken = 256;
  const extraConfig = { backends: ['LIBFABRIC'] };
  const prefillOptions = {
    role: 'prefill',
    transfer: { ...TRANSFER, extraConfig },
    kvBytesPerToken,
  } as const;
  const decodeOptions = { transfer: TRANSFER, kvBytesPerToken };
  const sourceOf = (transfer: TransferParams): EngineRequest['kvSource'] => ({
    prefillWorkerId: 'p',
    transfer,
    validForMs: 10_000,
  });

  test('the prefill leg asks for one token in one piece; the decode leg passes its answer as it is', () =>
    withEngine(
      (prefill, prefillHeard, prefillFake, prefillInfo) =>
        withEngine(
          async (decode, heard, fake) => {
            assert.equal(prefillInfo.transfer?.kvBytesPerToken, 256);
            const { connector, backends } = prefillInfo.transfer?.revision ?? {};
            assert.deepEqual([connector, backends], ['NixlConnector', '["LIBFABRIC"]']);
            const stageKv = { transferId: 't1' };
            prefill.submit(request(1, { stageKv, maxTokens: 200, minTokens: 50 }));
            const staged = await prefillHeard.end(1);
            assert.equal(staged.finish, 'length');
            assert.equal(staged.cachedTokens, 0);
            assert.equal(staged.tokens.length, 1);
            const leg = prefillFake.bodies[0];
            assert.equal(leg?.stream, false);
            assert.equal(leg?.sampling_params?.['max_tokens'], 1);
            assert.equal('min_tokens' in (leg?.sampling_params ?? {}), false);
            assert.equal('stream_options' in (leg ?? {}), false);
            assert.equal(prefill.load().stagedBlocks, 3);
            const { transfer } = staged;
            assert.ok(transfer?.protocol === 'nixl');
            assert.equal(transfer.params['transfer_mode'], 'pull');
            decode.submit(request(1, { kvSource: sourceOf(transfer)! }));
            assert.equal((await heard.end(1)).finish, 'length');
            assert.deepEqual(fake.bodies[0]?.kv_transfer_params, transfer.params);
            assert.deepEqual(heard.said, ['fetch 1', 'fetch 1 ok 10240']);
            assert.equal(prefillFake.staged.size, 0);
          },
          {},
          decodeOptions,
        ),
      { hasConnector: true },
      prefillOptions,
    ));

  test("to name NIXL's own backend makes no other revision", () =>
    withEngine(
      async (_engine, _heard, _fake, { transfer }) => {
        assert.equal(transfer?.revision['connector'], 'NixlConnector');
        assert.equal('backends' in transfer.revision, false);
      },
      {},
      { kvBytesPerToken, transfer: { ...TRANSFER, extraConfig: { backends: ['UCX'] } } },
    ));

  test('a fetch that fails is KV_LOST before any token; incomplete or foreign parameters are never sent', () =>
    withEngine(
      async (engine, heard, fake) => {
        const params = {
          do_remote_prefill: true,
          do_remote_decode: false,
          remote_block_ids: [[1, 2, 3]],
          remote_engine_id: 'gone',
          remote_request_id: 'gone-0',
          remote_host: '127.0.0.1',
          remote_port: 1,
        };
        const nixl = (fields: object): EngineRequest['kvSource'] =>
          sourceOf(parseTransferParams({ protocol: 'nixl', params: fields }));
        engine.submit(request(1, { kvSource: nixl(params)! }));
        const { error, tokens } = await heard.end(1);
        assert.deepEqual([error?.code, error?.retryable], ['WORKER_KV_LOST', true]);
        assert.equal(tokens.length, 0);
        assert.deepEqual(heard.said, ['fetch 1', 'fetch 1 failed 0']);
        const { remote_request_id: _, ...incomplete } = params;
        const refused = engine.submit(request(2, { kvSource: nixl(incomplete)! }));
        assert.ok(refused.kind === 'refused' && refused.retryable);
        assert.equal(refused.code, 'WORKER_KV_LOST');
        const tcp = { transferId: 't', endpoint: 'a:1', blocks: 1, blockBytes: 1 };
        const foreign = sourceOf({ protocol: 'tcp', params: tcp })!;
        assert.equal(engine.submit(request(3, { kvSource: foreign })).kind, 'refused');
        assert.equal(fake.bodies.length, 1);
      },
      {},
      decodeOptions,
    ));

  test('a fetch that never ends is given up; a decode engine that takes nothing is not the fault of the link', () =>
    withEngine(
      (prefill, prefillHeard) =>
        withEngine(
          async (engine, heard, fake) => {
            const bytes = (code: number): FakeVllm['next'] => ({
              kind: 'bytes',
              status: code,
              writes: [Buffer.from(JSON.stringify({ error: { message: 'no', code } }))],
            });
            const cases: [FakeVllm['next'], code: string, outcome: string][] = [
              [{ kind: 'hang' }, 'WORKER_KV_LOST', 'failed'],
              [bytes(500), 'WORKER_KV_LOST', 'failed'],
              [bytes(404), 'WORKER_FAULT', 'cancelled'],
              [bytes(503), 'WORKER_FULL', 'cancelled'],
              [{ kind: 'abort' }, 'WORKER_FULL', 'cancelled'],
            ];
            for (const [at, [next, code, outcome]] of cases.entries()) {
              const key = at + 1;
              prefill.submit(request(key, { stageKv: { transferId: `t${key}` } }));
              const { transfer } = await prefillHeard.end(key);
              assert.ok(transfer !== undefined);
              fake.next = next;
              engine.submit(request(key, { kvSource: sourceOf(transfer)! }));
              const { error } = await heard.end(key);
              assert.deepEqual([error?.code, error?.retryable], [code, true], `case ${at}`);
              assert.equal(heard.said.at(-1), `fetch ${key} ${outcome} 0`);
            }
          },
          {},
          { ...decodeOptions, fetchMs: 300 },
        ),
      { hasConnector: true },
      prefillOptions,
    ));

  test('a prefill whose transfer parameters are no use fails as a fault of its engine, which may be tried elsewhere', () =>
    withEngine(
      async (engine, heard, fake) => {
        const choices = [{ index: 0, token_ids: [1], finish_reason: 'length' }];
        const whole = {
          do_remote_prefill: true,
          do_remote_decode: false,
          remote_block_ids: [[1]],
          remote_engine_id: 'e',
          remote_host: 'h',
          remote_port: 1,
        };
        for (const [at, kvTransferParams] of [
          {},
          whole,
          'x',
          { ...whole, remote_port: 'no' },
        ].entries()) {
          const body = JSON.stringify({ choices, kv_transfer_params: kvTransferParams });
          fake.next = { kind: 'bytes', writes: [Buffer.from(body)] };
          engine.submit(request(at, { stageKv: { transferId: `t${at}` } }));
          const { error, transfer } = await heard.end(at);
          assert.deepEqual([error?.code, error?.retryable], ['WORKER_FAULT', true], body);
          assert.equal(transfer, undefined);
        }
        assert.equal(engine.load().stagedBlocks, 0);
      },
      { hasConnector: true },
      prefillOptions,
    ));

  test('without a connector the prefill leg ends without `transfer`', () =>
    withEngine(
      async (engine, heard) => {
        engine.submit(request(1, { stageKv: { transferId: 't' } }));
        const end = await heard.end(1);
        assert.equal(end.finish, 'length');
        assert.equal(end.transfer, undefined);
        assert.equal(engine.load().stagedBlocks, 0);
        assert.equal(engine.submit(request(1)).kind, 'accepted');
      },
      {},
      prefillOptions,
    ));

  test('what expired at an engine before this worker attached to it is none of its own', async () => {
    const fake = await startFake({ hasConnector: true, leaseMs: 300 });
    fake.expired = 5;
    const transfer = { ...TRANSFER, leaseMs: 300 };
    const engine = createVllmEngine(optionsFor(fake, { ...prefillOptions, transfer }));
    const heard = new Heard();
    await engine.start(heard, new AbortController().signal);
    engine.submit(request(1, { stageKv: { transferId: 't1' } }));
    await heard.end(1);
    fake.loseKv();
    await until('the fetch is told', () => heard.said.length === 1);
    assert.deepEqual(heard.said, ['staged 1 fetched']);
    await engine.stop();
  });

  test('staged KV keeps its key until the lease ends, and its end is what the engine counted', () =>
    withEngine(
      async (engine, heard, fake) => {
        for (const key of [1, 2, 3]) {
          engine.submit(
            request(key, { stageKv: { transferId: `t${key}` }, tokens: prompt(40, key) }),
          );
          await heard.end(key);
        }
        const again = engine.submit(request(1));
        assert.equal(again.kind === 'refused' && again.code, 'WORKER_BAD_REQUEST');
        // The second was fetched: a decode engine tells this one, not us.
        fake.staged.delete('generate-tokens-2');
        engine.abort(1);
        assert.equal(engine.load().stagedBlocks, 9);
        engine.stagedFetched?.(3);
        engine.stagedFetched?.(3);
        assert.deepEqual(heard.said.splice(0), ['staged 3 fetched'], 'whoever knows it says so');
        fake.staged.delete('generate-tokens-3');
        assert.equal(engine.load().stagedBlocks, 6);
        await until('both ends are told', () => heard.said.length === 2);
        assert.deepEqual(heard.said, ['staged 1 expired', 'staged 2 fetched']);
        assert.equal(engine.load().stagedBlocks, 0);
      },
      { hasConnector: true, leaseMs: 300 },
      { ...prefillOptions, transfer: { ...TRANSFER, leaseMs: 300 } },
    ));

  test('Mooncake: the same transfer id in both legs, the rest from the engine that prefilled', () =>
    withEngine(
      async (engine, heard, fake) => {
        engine.submit(request(1, { stageKv: { transferId: 't7' } }));
        const { transfer } = await heard.end(1);
        assert.deepEqual(fake.bodies[0]?.kv_transfer_params, {
          do_remote_decode: true,
          do_remote_prefill: false,
          transfer_id: 't7',
        });
        assert.deepEqual(transfer, {
          protocol: 'mooncake',
          params: {
            do_remote_prefill: true,
            do_remote_decode: false,
            remote_bootstrap_addr: 'http://127.0.0.1:8998',
            remote_engine_id: 'engine-7',
            transfer_id: 't7',
          },
        });
      },
      {},
      {
        role: 'prefill',
        kvBytesPerToken,
        transfer: { ...TRANSFER, protocol: 'mooncake', port: 8_998, engineId: 'engine-7' },
      },
    ));
});
