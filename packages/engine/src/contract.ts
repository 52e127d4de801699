import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { WorkerInfo } from '@busbar/protocol';
import { blockNames, cachedTokensOf, prompt, Recorder, request } from './contract-recorder.ts';
import type { Engine } from './port.ts';

export {
  type TransferContractOptions,
  type TransferPair,
  type TransferTraits,
  transferContract,
} from './contract-transfer.ts';

/** What the suite needs of an engine under test. */
export interface ContractOptions {
  blockSize: number;
  kvBlocks: number;
  contextTokens: number;
  emitKvEvents: boolean;
}

const OPTIONS: ContractOptions = {
  blockSize: 16,
  kvBlocks: 64,
  contextTokens: 512,
  emitKvEvents: true,
};

/** What some engines cannot promise. */
export interface ContractTraits {
  /** KV events of a step come before its tokens: not where they come over another connection. */
  kvBeforeTokens: boolean;
}

/**
 * What every engine promises. `create` makes a fresh engine that is not started; the suite starts it, and stops it after
 * each test.
 */
export function engineContract(
  name: string,
  create: (options: ContractOptions) => Engine | Promise<Engine>,
  traits: ContractTraits = { kvBeforeTokens: true },
): void {
  const withEngine = async (
    use: (engine: Engine, seen: Recorder, info: WorkerInfo) => Promise<void>,
    options: Partial<ContractOptions> = {},
  ): Promise<void> => {
    const engine = await create({ ...OPTIONS, ...options });
    const seen = new Recorder();
    const info = await engine.start(seen, new AbortController().signal);
    try {
      await use(engine, seen, info);
      assert.deepEqual(seen.faults, []);
    } finally {
      await engine.stop();
    }
  };
  describe(`engine contract: ${name}`, () => {
    generationTests(withEngine);
    endingTests(withEngine);
    cacheTests(withEngine, traits);
  });
}

type WithEngine = (
  use: (engine: Engine, seen: Recorder, info: WorkerInfo) => Promise<void>,
  options?: Partial<ContractOptions>,
) => Promise<void>;

function generationTests(withEngine: WithEngine): void {
  test('says what it is', () =>
    withEngine(async (_engine, _seen, info) => {
      assert.equal(info.blockSize, OPTIONS.blockSize);
      assert.equal(info.kvBlocks, OPTIONS.kvBlocks);
      assert.equal(info.contextTokens, OPTIONS.contextTokens);
      assert.equal(info.kvEvents, true);
      assert.ok(info.maxRunning >= 1 && info.prefillTokensPerMs > 0);
    }));

  test('generates maxTokens tokens, finishes once, tells cachedTokens once', () =>
    withEngine(async (engine, seen) => {
      for (const key of [1, 2, 3]) {
        assert.equal(
          engine.submit(request(key, prompt(40, key), { maxTokens: 5 + key })).kind,
          'accepted',
        );
      }
      await seen.until('three ends', () =>
        [1, 2, 3].every((key) => seen.finish(key) !== undefined),
      );
      for (const key of [1, 2, 3]) {
        const deltas = seen.of(key);
        assert.equal(
          deltas.reduce((sum, delta) => sum + delta.tokens.length, 0),
          5 + key,
        );
        assert.deepEqual(
          deltas.map((delta) => delta.finish).filter((finish) => finish !== 'none'),
          ['length'],
        );
        assert.equal(deltas.at(-1)?.finish, 'length');
        assert.equal(cachedTokensOf(deltas), 0);
        assert.ok(deltas.every((delta) => delta.finish !== 'none' || delta.tokens.length > 0));
      }
    }));

  test('refuses what can never run, and takes a key again after its end', () =>
    withEngine(async (engine, seen) => {
      const tooLong = engine.submit(request(1, prompt(OPTIONS.contextTokens)));
      assert.equal(tooLong.kind === 'refused' && tooLong.code, 'WORKER_TOO_LONG');
      assert.equal(tooLong.kind === 'refused' && tooLong.retryable, false);
      const empty = engine.submit(request(1, new Uint32Array(0)));
      assert.equal(empty.kind === 'refused' && empty.code, 'WORKER_BAD_REQUEST');
      assert.equal(engine.submit(request(1, prompt(40))).kind, 'accepted');
      const twice = engine.submit(request(1, prompt(40)));
      assert.equal(twice.kind === 'refused' && twice.code, 'WORKER_BAD_REQUEST');
      await seen.until('its end', () => seen.finish(1) !== undefined);
      assert.equal(engine.submit(request(1, prompt(40))).kind, 'accepted');
    }));

  test('a prompt that fits the context ends with "length" when the context is full', () =>
    withEngine(async (engine, seen) => {
      engine.submit(request(1, prompt(OPTIONS.contextTokens - 4), { maxTokens: 100 }));
      await seen.until('its end', () => seen.finish(1) !== undefined);
      assert.equal(seen.finish(1), 'length');
      const tokens = seen.of(1).reduce((sum, delta) => sum + delta.tokens.length, 0);
      assert.ok(tokens >= 3 && tokens <= 4, `${tokens} tokens`);
    }));
}

function endingTests(withEngine: WithEngine): void {
  test('a stop token ends the answer, not before minTokens', () =>
    withEngine(async (engine, seen) => {
      engine.submit(request(1, prompt(40), { maxTokens: 8 }));
      await seen.until('its end', () => seen.finish(1) !== undefined);
      const tokens = seen.of(1).flatMap((delta) => [...delta.tokens]);
      const stop = tokens[3]!;
      engine.submit(request(2, prompt(40), { stopTokenIds: [stop] }));
      await seen.until('its end', () => seen.finish(2) !== undefined);
      assert.equal(seen.finish(2), 'stop');
      assert.equal(
        seen
          .of(2)
          .flatMap((delta) => [...delta.tokens])
          .at(-1),
        stop,
      );
      engine.submit(request(3, prompt(40), { stopTokenIds: tokens, minTokens: 6 }));
      await seen.until('its end', () => seen.finish(3) !== undefined);
      assert.ok(seen.of(3).flatMap((delta) => [...delta.tokens]).length > 6);
    }));

  test('abort ends with "cancelled" once and frees the blocks; unknown keys are ignored', () =>
    withEngine(async (engine, seen) => {
      engine.abort(99);
      engine.submit(request(1, prompt(100), { maxTokens: 400 }));
      engine.submit(request(2, prompt(100, 1), { maxTokens: 400 }));
      await seen.until('first tokens', () => seen.of(1).length > 0 && seen.of(2).length > 0);
      const beganAt = performance.now();
      engine.abort(1);
      engine.abort(1);
      await seen.until('the end of 1', () => seen.finish(1) !== undefined);
      assert.ok(performance.now() - beganAt < 500);
      assert.equal(seen.finish(1), 'cancelled');
      engine.abort(2);
      await seen.until('the end of 2', () => seen.finish(2) !== undefined);
      const { running, waiting, activeBlocks } = engine.load();
      assert.deepEqual(
        { running, waiting, activeBlocks },
        { running: 0, waiting: 0, activeBlocks: 0 },
      );
      const ends = seen.deltas.filter((delta) => delta.finish !== 'none');
      assert.equal(ends.length, 2);
    }));

  test('stop ends every request with "cancelled" and refuses new ones', async () => {
    await withEngine(async (engine, seen) => {
      for (const key of [1, 2, 3]) engine.submit(request(key, prompt(64, key), { maxTokens: 300 }));
      await seen.until('a token', () => seen.deltas.length > 0);
      await engine.stop();
      for (const key of [1, 2, 3]) assert.equal(seen.finish(key), 'cancelled');
      const refused = engine.submit(request(4, prompt(16)));
      assert.equal(refused.kind, 'refused');
    });
  });
}

function cacheTests(withEngine: WithEngine, traits: ContractTraits): void {
  test('the same prompt again finds its full blocks, but computes at least one token', () =>
    withEngine(async (engine, seen) => {
      for (const [key, length, cached] of [
        [1, 80, 0],
        [2, 80, 64],
        [3, 85, 80],
      ] as const) {
        engine.submit(request(key, prompt(length)));
        await seen.until('its end', () => seen.finish(key) !== undefined);
        assert.equal(cachedTokensOf(seen.of(key)), cached, `request ${key}`);
      }
    }));

  test('another LoRA or salt never shares a block', () =>
    withEngine(async (engine, seen) => {
      const variants = [{}, { cacheSalt: 'a' }, { cacheSalt: 'b' }, { lora: 'a' }];
      for (const [key, variant] of variants.entries()) {
        engine.submit(request(key, prompt(80), variant));
        await seen.until('its end', () => seen.finish(key) !== undefined);
        assert.equal(cachedTokensOf(seen.of(key)), 0, JSON.stringify(variant));
      }
      engine.submit(request(9, prompt(80), { cacheSalt: 'a' }));
      await seen.until('its end', () => seen.finish(9) !== undefined);
      assert.equal(cachedTokensOf(seen.of(9)), 64);
    }));

  test('KV events add up to blocks(), through eviction too', () =>
    withEngine(async (engine, seen) => {
      const same = (): boolean => {
        const blocks = engine.blocks().flatMap((part) => blockNames(part.hashes));
        return (
          blocks.length === seen.blocks.size && blocks.every((block) => seen.blocks.has(block))
        );
      };
      for (let key = 1; key <= 12; key++) {
        engine.submit(request(key, prompt(160, key), { maxTokens: 20 }));
        await seen.until('its end', () => seen.finish(key) !== undefined);
        assert.ok(same(), `after request ${key}`);
      }
      if (traits.kvBeforeTokens) assert.equal(seen.order[0], 'kv');
      assert.ok(seen.blocks.size > 0 && seen.blocks.size <= OPTIONS.kvBlocks);
      assert.ok(engine.load().storedBlocksTotal > OPTIONS.kvBlocks, 'blocks were evicted');
      await engine.resetCache();
      await seen.until('an empty cache', () => seen.blocks.size === 0 && same());
    }));

  test('without events there are none, and no block set is known', () =>
    withEngine(
      async (engine, seen, info) => {
        assert.equal(info.kvEvents, false);
        engine.submit(request(1, prompt(160)));
        await seen.until('its end', () => seen.finish(1) !== undefined);
        assert.equal(seen.kvCalls, 0);
        assert.deepEqual(engine.blocks(), []);
        assert.ok(engine.load().storedBlocksTotal >= 10);
      },
      { emitKvEvents: false },
    ));
}
