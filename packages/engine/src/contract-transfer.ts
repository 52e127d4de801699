import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRng } from '@busbar/base';
import { parseTransferParams, type TransferParams, type WorkerInfo } from '@busbar/protocol';
import { cachedTokensOf, prompt, Recorder, request } from './contract-recorder.ts';
import type { Engine, EngineRequest } from './port.ts';

/** What the suite needs of the two engines under test. */
export interface TransferContractOptions {
  blockSize: number;
  kvBlocks: number;
  contextTokens: number;
  /** How long staged KV waits for its fetch. */
  stagedKvMs: number;
}

export interface TransferPair {
  prefill: Engine;
  decode: Engine;
  /** Makes what the prefill engine has staged unreachable, as the death of its process does. Absent: stopping the engine does. */
  loseKv?(): void;
}

/** What some engines cannot promise. */
export interface TransferTraits {
  /** Staged KV that was fetched or given up ends at once, and is not only counted off when its time is over. */
  endsStagedAtOnce: boolean;
}

const OPTIONS: TransferContractOptions = {
  blockSize: 16,
  kvBlocks: 64,
  contextTokens: 512,
  stagedKvMs: 60_000,
};
/** For tests in which staged KV is to run out. */
const SHORT_MS = 150;
const PROMPT_TOKENS = 70;
const PROMPT_BLOCKS = 5;
const MOONCAKE: TransferParams = {
  protocol: 'mooncake',
  params: {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_bootstrap_addr: 'http://127.0.0.1:1',
    remote_engine_id: 'e',
    transfer_id: 't',
  },
};
const TCP: TransferParams = {
  protocol: 'tcp',
  params: { transferId: 't', endpoint: '127.0.0.1:1', blocks: PROMPT_BLOCKS, blockBytes: 1 },
};

/** Two engines at work. */
class Bench {
  readonly prefill: Engine;
  readonly decode: Engine;
  readonly pair: TransferPair;
  readonly seenPrefill = new Recorder();
  readonly seenDecode = new Recorder();

  constructor(pair: TransferPair) {
    this.pair = pair;
    this.prefill = pair.prefill;
    this.decode = pair.decode;
  }

  async start(): Promise<{ prefill: WorkerInfo; decode: WorkerInfo }> {
    const { signal } = new AbortController();
    return {
      prefill: await this.prefill.start(this.seenPrefill, signal),
      decode: await this.decode.start(this.seenDecode, signal),
    };
  }

  /** Prefills and waits for the parameters of the transfer. */
  async stage(key: number, tokens = prompt(PROMPT_TOKENS)): Promise<TransferParams> {
    const staged = this.prefill.submit(stageRequest(key, tokens));
    assert.equal(staged.kind, 'accepted');
    await this.seenPrefill.until('the prefill', () => this.seenPrefill.finish(key) !== undefined);
    const transfer = this.seenPrefill.of(key).at(-1)?.transfer;
    assert.ok(transfer !== undefined, 'the last delta carries the transfer');
    return transfer;
  }

  /** Submits the decode leg. */
  fetch(key: number, transfer: TransferParams, more: Partial<EngineRequest> = {}): void {
    const submitted = this.decode.submit(fetchRequest(key, transfer, more));
    assert.equal(submitted.kind, 'accepted');
  }

  async ended(key: number): Promise<string | undefined> {
    await this.seenDecode.until('the answer', () => this.seenDecode.finish(key) !== undefined);
    return this.seenDecode.finish(key);
  }

  /** Waits until nothing is staged, runs or is held on either side, and each fetch that began was ended. */
  async rest(): Promise<void> {
    for (const [engine, seen] of [
      [this.prefill, this.seenPrefill],
      [this.decode, this.seenDecode],
    ] as const) {
      await seen.until('an idle engine', () => {
        const { running, waiting, activeBlocks, stagedBlocks } = engine.load();
        return running + waiting + activeBlocks + stagedBlocks === 0;
      });
    }
    await this.seenDecode.until('the ends of all fetches', () =>
      this.seenDecode.fetches.every((fetch) => fetch.report !== undefined),
    );
    assert.deepEqual([...this.seenPrefill.faults, ...this.seenDecode.faults], []);
  }
}

function stageRequest(key: number, tokens: Uint32Array): EngineRequest {
  return request(key, tokens, { maxTokens: 1, stageKv: { transferId: `transfer-${key}` } });
}

function fetchRequest(
  key: number,
  transfer: TransferParams,
  more: Partial<EngineRequest> = {},
): EngineRequest {
  const kvSource = { prefillWorkerId: 'p1', transfer, validForMs: OPTIONS.stagedKvMs };
  return request(key, prompt(PROMPT_TOKENS), { kvSource, ...more });
}

type WithBench = (
  use: (bench: Bench, infos: { prefill: WorkerInfo; decode: WorkerInfo }) => Promise<void>,
  options?: Partial<TransferContractOptions>,
) => Promise<void>;

/**
 * What two engines promise that exchange KV. `create` makes a fresh prefill and a fresh decode engine, not started, that make a
 * pair; the suite starts them, and stops them after each test.
 */
export function transferContract(
  name: string,
  create: (options: TransferContractOptions) => TransferPair | Promise<TransferPair>,
  traits: TransferTraits = { endsStagedAtOnce: true },
): void {
  const withBench: WithBench = async (use, options = {}) => {
    const bench = new Bench(await create({ ...OPTIONS, ...options }));
    try {
      await use(bench, await bench.start());
    } finally {
      await bench.decode.stop();
      await bench.prefill.stop();
    }
  };
  // Where the end of staged KV is only seen when its time is over, that time must be short.
  const mayEndLate: WithBench = (use) =>
    withBench(use, traits.endsStagedAtOnce ? {} : { stagedKvMs: SHORT_MS });
  describe(`transfer contract: ${name}`, () => {
    stagingTests(withBench, mayEndLate, traits);
    fetchingTests(withBench, mayEndLate);
    failureTests(withBench);
    abortTests(mayEndLate);
  });
}

function stagingTests(withBench: WithBench, mayEndLate: WithBench, traits: TransferTraits): void {
  test('the two make a pair', () =>
    withBench(async (_bench, { prefill, decode }) => {
      assert.equal(prefill.role, 'prefill');
      assert.ok(prefill.transfer !== undefined && decode.transfer !== undefined);
      assert.equal(prefill.transfer.protocol, decode.transfer.protocol);
      assert.deepEqual(prefill.transfer.revision, decode.transfer.revision);
      assert.equal(prefill.transfer.kvBytesPerToken, decode.transfer.kvBytesPerToken);
      await Promise.resolve();
    }));

  test('a staged prompt ends after one token with its transfer; its blocks and key stay in use', () =>
    withBench(async (bench) => {
      const transfer = await bench.stage(1);
      assert.deepEqual(parseTransferParams(transfer), transfer);
      const deltas = bench.seenPrefill.of(1);
      assert.equal(
        deltas.reduce((sum, delta) => sum + delta.tokens.length, 0),
        1,
      );
      assert.equal(cachedTokensOf(deltas), 0);
      const { running, stagedBlocks, activeBlocks } = bench.prefill.load();
      assert.equal(running, 0);
      assert.equal(stagedBlocks, PROMPT_BLOCKS);
      assert.ok(activeBlocks >= stagedBlocks);
      const again = bench.prefill.submit(request(1, prompt(40)));
      assert.equal(again.kind === 'refused' && again.code, 'WORKER_BAD_REQUEST');
    }));

  test('a request stages or fetches, not both; another protocol is refused', () =>
    withBench(async (bench) => {
      const transfer = await bench.stage(1);
      const both = bench.prefill.submit({
        ...fetchRequest(2, transfer),
        stageKv: { transferId: 'x' },
      });
      assert.equal(both.kind === 'refused' && both.code, 'WORKER_BAD_REQUEST');
      const other = transfer.protocol === 'tcp' ? MOONCAKE : TCP;
      const foreign = bench.decode.submit(fetchRequest(3, other));
      assert.equal(foreign.kind === 'refused' && foreign.code, 'WORKER_BAD_REQUEST');
    }));

  test('staged KV that nobody fetches expires', () =>
    withBench(
      async (bench) => {
        await bench.stage(1);
        await bench.seenPrefill.until(
          'its end',
          () => bench.seenPrefill.stagedEnd(1) === 'expired',
        );
        await bench.rest();
      },
      { stagedKvMs: SHORT_MS },
    ));

  test('stop ends what is staged', () =>
    withBench(async (bench) => {
      await bench.stage(1);
      await bench.prefill.stop();
      assert.ok(bench.seenPrefill.stagedEnd(1) !== undefined);
    }));

  test('staged KV that is given up ends, and its key can be used again', () =>
    mayEndLate(async (bench) => {
      await bench.stage(1);
      bench.prefill.abort(1);
      bench.prefill.abort(1);
      await bench.seenPrefill.until('its end', () => bench.seenPrefill.stagedEnd(1) !== undefined);
      const how = bench.seenPrefill.stagedEnd(1);
      assert.ok(how === 'released' || (how === 'expired' && !traits.endsStagedAtOnce), how);
      assert.equal(bench.seenPrefill.finish(1), 'length', 'it ended before, and ends once');
      await bench.rest();
    }));
}

function fetchingTests(withBench: WithBench, mayEndLate: WithBench): void {
  test('a fetched prompt is answered like one that was computed, and the staged KV ends', () =>
    mayEndLate(async (bench) => {
      const { seenDecode, seenPrefill } = bench;
      const transfer = await bench.stage(1);
      bench.fetch(7, transfer);
      assert.equal(await bench.ended(7), 'length');
      const deltas = seenDecode.of(7);
      assert.equal(cachedTokensOf(deltas) !== undefined, true);
      assert.equal(seenDecode.fetches.length, 1);
      assert.equal(seenDecode.fetches[0]?.report?.outcome, 'ok');
      assert.ok((seenDecode.fetches[0]?.report?.bytes ?? 0) > 0);
      await seenPrefill.until('its end', () => seenPrefill.stagedEnd(1) === 'fetched');
      bench.decode.submit(request(8, prompt(PROMPT_TOKENS)));
      await bench.ended(8);
      assert.deepEqual(tokensOf(seenDecode, 7), tokensOf(seenDecode, 8));
      await bench.rest();
    }));

  test('several at once, each with its own', () =>
    mayEndLate(async (bench) => {
      for (const key of [1, 2, 3, 4]) {
        const tokens = prompt(PROMPT_TOKENS, key);
        const transfer = await bench.stage(key, tokens);
        bench.fetch(10 + key, transfer, { tokens });
      }
      for (const key of [1, 2, 3, 4]) assert.equal(await bench.ended(10 + key), 'length');
      assert.equal(bench.seenDecode.fetches.length, 4);
      await bench.rest();
    }));

  test('requests that compute their prompt run beside', () =>
    withBench(async (bench) => {
      const transfer = await bench.stage(1);
      bench.decode.submit(request(2, prompt(40, 2)));
      bench.fetch(3, transfer);
      bench.prefill.submit(request(4, prompt(40, 4)));
      assert.equal(await bench.ended(2), 'length');
      assert.equal(await bench.ended(3), 'length');
      await bench.seenPrefill.until('it', () => bench.seenPrefill.finish(4) === 'length');
    }));
}

function failureTests(withBench: WithBench): void {
  const assertLost = (bench: Bench, key: number): void => {
    const deltas = bench.seenDecode.of(key);
    assert.equal(deltas.length, 1, 'nothing but the error');
    assert.equal(deltas[0]?.tokens.length, 0);
    assert.equal(deltas[0]?.error?.code, 'WORKER_KV_LOST');
    assert.equal(deltas[0]?.error?.retryable, true);
    assert.ok((deltas[0]?.error?.message ?? '') !== '');
  };

  test('a fetch whose time is over ends with a retryable WORKER_KV_LOST before any token', () =>
    withBench(async (bench) => {
      const transfer = await bench.stage(1);
      bench.fetch(2, transfer, { kvSource: { prefillWorkerId: 'p1', transfer, validForMs: 0 } });
      assert.equal(await bench.ended(2), 'error');
      assertLost(bench, 2);
      bench.decode.submit(request(2, prompt(PROMPT_TOKENS)));
      await bench.seenDecode.until('the same, computed', () =>
        bench.seenDecode.of(2).some((delta) => delta.finish === 'length'),
      );
    }));

  test('a fetch from an engine that is gone too', () =>
    withBench(async (bench) => {
      const transfer = await bench.stage(1);
      if (bench.pair.loseKv === undefined) await bench.prefill.stop();
      else bench.pair.loseKv();
      bench.fetch(2, transfer);
      assert.equal(await bench.ended(2), 'error');
      assertLost(bench, 2);
      for (const { report } of bench.seenDecode.fetches) assert.equal(report?.outcome, 'failed');
      const { running, waiting, activeBlocks } = bench.decode.load();
      assert.deepEqual([running, waiting, activeBlocks], [0, 0, 0]);
    }));
}

function abortTests(mayEndLate: WithBench): void {
  test('abort before the prefill is done ends with "cancelled", and nothing is staged', () =>
    mayEndLate(async (bench) => {
      bench.prefill.submit(stageRequest(1, prompt(PROMPT_TOKENS)));
      bench.prefill.abort(1);
      await bench.seenPrefill.until('its end', () => bench.seenPrefill.finish(1) !== undefined);
      assert.equal(bench.seenPrefill.finish(1), 'cancelled');
      assert.equal(bench.seenPrefill.of(1).at(-1)?.transfer, undefined);
      await bench.rest();
      assert.equal(bench.seenPrefill.stagedEnd(1), undefined);
    }));

  test('abort of a fetch at each stage ends once, with everything free', () =>
    mayEndLate(async (bench) => {
      const { seenDecode } = bench;
      const stages: Record<number, () => boolean> = {
        11: () => true,
        12: () => seenDecode.fetches.some((fetch) => fetch.key === 12),
        13: () => seenDecode.fetches.some(({ key, report }) => key === 13 && report !== undefined),
        14: () => seenDecode.of(14).length > 0,
      };
      for (const [name, isReached] of Object.entries(stages)) {
        const key = Number(name);
        const transfer = await bench.stage(key - 10);
        bench.fetch(key, transfer, { maxTokens: 400 });
        await seenDecode.until(`stage of ${key}`, isReached);
        bench.decode.abort(key);
        assert.equal(await bench.ended(key), 'cancelled');
        bench.prefill.abort(key - 10);
        await bench.rest();
      }
      assert.equal(seenDecode.deltas.filter((delta) => delta.finish !== 'none').length, 4);
    }));

  test('stop of the decode side ends its fetches', () =>
    mayEndLate(async (bench) => {
      bench.fetch(2, await bench.stage(1));
      await bench.decode.stop();
      assert.ok(bench.seenDecode.finish(2) !== undefined);
      assert.ok(bench.seenDecode.fetches.every((fetch) => fetch.report !== undefined));
      bench.prefill.abort(1);
      await bench.rest();
    }));

  test('forty requests, aborted on either side at any moment, leave nothing', () =>
    mayEndLate(async (bench) => {
      const rng = createRng(7);
      for (let key = 1; key <= 40; key++) {
        bench.prefill.submit(stageRequest(key, prompt(PROMPT_TOKENS, key % 3)));
        if (rng.int(4) === 0) bench.prefill.abort(key);
        await bench.seenPrefill.until('it', () => bench.seenPrefill.finish(key) !== undefined);
        const transfer = bench.seenPrefill.of(key).at(-1)?.transfer;
        if (transfer === undefined) continue;
        if (rng.int(4) === 0) bench.prefill.abort(key);
        bench.fetch(key, transfer, { tokens: prompt(PROMPT_TOKENS, key % 3) });
        if (rng.int(4) === 0) bench.decode.abort(key);
        if (rng.int(4) === 0) bench.prefill.abort(key);
        await bench.ended(key);
        bench.prefill.abort(key);
      }
      await bench.rest();
    }));
}

function tokensOf(seen: Recorder, key: number): number[] {
  return seen.of(key).flatMap((delta) => [...delta.tokens]);
}
