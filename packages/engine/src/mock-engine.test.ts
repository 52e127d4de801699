import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EngineProfile, PROFILES } from '@busbar/mocker';
import { engineContract, type TransferPair, transferContract } from './contract.ts';
import { createMockEngine, type MockEngineOptions } from './mock-engine.ts';
import type { Engine, EngineDelta, EngineSink } from './port.ts';

const clock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
const script = [Uint32Array.from({ length: 40 }, (_, at) => 100 + at)];

function create(
  profile: EngineProfile,
  options: { kvBlocks: number; contextTokens: number; emitKvEvents: boolean },
): Engine {
  const { emitKvEvents, ...sizes } = options;
  const mocker: MockEngineOptions['mocker'] = {
    blockSize: 16,
    ...sizes,
    profile,
    speed: 1,
    script,
    eosTokenIds: [2],
  };
  return createMockEngine({ model: 'm', role: 'decode', mocker, emitKvEvents, clock });
}

const oneMs: EngineProfile = { ...PROFILES['instant']!, name: 'one-ms', stepMs: () => 1 };
for (const profile of [PROFILES['instant']!, oneMs]) {
  engineContract(profile.name, (options) => create(profile, options));
  transferContract(profile.name, ({ stagedKvMs, ...sizes }): TransferPair => {
    const mocker = { ...sizes, profile, speed: 1, script, eosTokenIds: [2] };
    const transfer = { host: '127.0.0.1', port: 0 };
    const common = { model: 'm', mocker, emitKvEvents: true, clock, transfer, stagedKvMs };
    return {
      prefill: createMockEngine({ ...common, role: 'prefill' }),
      decode: createMockEngine({ ...common, role: 'decode' }),
    };
  });
}

function sinkOf(onDeltas: (deltas: EngineDelta[]) => void): EngineSink {
  return {
    onStep: ({ deltas }) => onDeltas(deltas),
    onKv: () => {},
    onCacheReset: () => {},
    onStagedEnd: () => {},
    onFetchBegin: () => {},
    onFetchEnd: () => {},
    onInfo: () => {},
    onFault: (error) => assert.fail(error),
  };
}

async function generate(
  engine: Engine,
  streams: number,
  outputTokens: number,
  each: () => void = () => {},
): Promise<number> {
  let open = streams;
  const beganAt = performance.now();
  await new Promise<void>((resolve, reject) => {
    engine
      .start(
        sinkOf((deltas) => {
          each();
          for (const delta of deltas) if (delta.finish !== 'none') open--;
          if (open === 0) resolve();
        }),
        new AbortController().signal,
      )
      .catch(reject);
    for (let key = 1; key <= streams; key++) {
      engine.submit({
        key,
        tokens: Uint32Array.of(key, 1, 2, 3),
        maxTokens: outputTokens,
        minTokens: 0,
        ignoreEos: true,
        stopTokenIds: [],
        sampling: {},
      });
    }
  });
  const tookMs = performance.now() - beganAt;
  await engine.stop();
  return tookMs;
}

const sizes = { kvBlocks: 4096, contextTokens: 4096, emitKvEvents: true };

test('128 streams take the time of the model: lateness of timers and slow readers does not add up', async () => {
  // 150 steps of 3.4 ms; every fifth reader holds the loop for 3 ms.
  const profile: EngineProfile = { ...PROFILES['instant']!, name: 'odd', stepMs: () => 3.4 };
  let step = 0;
  const tookMs = await generate(create(profile, sizes), 128, 150, () => {
    if (step++ % 5 !== 0) return;
    const until = performance.now() + 3;
    while (performance.now() < until);
  });
  const modelMs = 150 * 3.4;
  assert.ok(tookMs >= modelMs - 1, `${tookMs} ms`);
  assert.ok(tookMs < modelMs * 1.15, `${tookMs} ms instead of ${modelMs}`);
});

test('the instant profile leaves the event loop its turns', async () => {
  let turns = 0;
  let steps = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  await generate(create(PROFILES['instant']!, sizes), 16, 500, () => steps++);
  isOver = true;
  assert.ok(steps >= 500);
  assert.ok(turns >= steps - 2, `${turns} turns in ${steps} steps`);
});

test('equal prompts get equal answers, another seed another one', async () => {
  const answers = new Map<number, number[]>();
  const engine = createMockEngine({
    model: 'm',
    role: 'decode',
    emitKvEvents: false,
    clock,
    mocker: {
      blockSize: 16,
      kvBlocks: 64,
      contextTokens: 512,
      profile: PROFILES['instant']!,
      speed: 1,
      script: [Uint32Array.of(10, 11), Uint32Array.of(20, 21), Uint32Array.of(30, 31)],
      eosTokenIds: [2],
    },
  });
  await new Promise<void>((resolve, reject) => {
    let open = 5;
    const sink = sinkOf((deltas) => {
      for (const delta of deltas) {
        answers.set(delta.key, [...(answers.get(delta.key) ?? []), ...delta.tokens]);
        if (delta.finish !== 'none' && --open === 0) resolve();
      }
    });
    engine.start(sink, new AbortController().signal).catch(reject);
    for (const [key, seed] of [
      [1, undefined],
      [2, undefined],
      [3, 7],
      // Their lower 32 bits are equal.
      [4, 2 ** 62],
      [5, 2 ** 61],
    ] as const) {
      engine.submit({
        key,
        tokens: Uint32Array.of(1, 2, 3),
        maxTokens: 40,
        minTokens: 0,
        ignoreEos: true,
        stopTokenIds: [],
        sampling: seed === undefined ? {} : { seed },
      });
    }
  });
  await engine.stop();
  assert.deepEqual(answers.get(1), answers.get(2));
  assert.notDeepEqual(answers.get(1), answers.get(3));
  assert.notDeepEqual(answers.get(4), answers.get(1));
  assert.notDeepEqual(answers.get(4), answers.get(5));
});
