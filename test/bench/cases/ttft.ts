import { createRng } from '@busbar/base';
import { createMockEngine, type EngineDelta } from '@busbar/engine';
import { profileByName } from '@busbar/mocker';
import { quantile } from '../chat-client.ts';
import { runLoadWorkload } from '../load-workload.ts';
import type { BenchContext } from '../run.ts';
import { stackFlags, startStack } from '../stack.ts';

const PROMPT_TOKENS = 240;
const OUTPUT_TOKENS = 64;
/** Requests before those that count: what is measured is a process that serves, not one that has just started. */
const WARM_UP = 256;
const clock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };

interface Shape {
  inFlight: number;
  requests: number;
}

/** TTFT with one request in flight and total time of a stream with 128, each beside the same engine asked without anything in between. */
export async function benchTtft(context: BenchContext): Promise<unknown> {
  const results: unknown[] = [];
  for (const shape of [
    { inFlight: 1, requests: 60 },
    { inFlight: 128, requests: 1280 },
  ]) {
    const alone = await engineAlone(shape);
    const stack = await startStack([...stackFlags(context, 'dynamo-mocker'), '--decode', '2']);
    try {
      const served = await runLoadWorkload({
        url: stack.url,
        model: context.model,
        ...shape,
        warmUp: WARM_UP,
        prefixes: 0,
        prefixWords: 200,
        tailWords: 24,
        maxTokens: OUTPUT_TOKENS,
        seed: 1,
        pids: stack.pids('frontend'),
      });
      context.say(
        `${shape.inFlight} in flight: TTFT p50 ${served.ttftMs.p50.toFixed(1)} ms (engine alone ${alone.ttftMsP50.toFixed(1)}), ` +
          `total p99 ${served.e2eMs.p99.toFixed(0)} ms (engine alone ${alone.e2eMsP99.toFixed(0)})`,
      );
      results.push({ ...shape, served, alone });
    } finally {
      await stack.down();
    }
  }
  return results;
}

/** The same closed loop against two mock engines in this process: no bus, no HTTP, no tokenizer. */
async function engineAlone(shape: Shape): Promise<{ ttftMsP50: number; e2eMsP99: number }> {
  const profile = profileByName('dynamo-mocker');
  if (profile === undefined) throw new Error('no such profile');
  const rng = createRng(3);
  const waiting = new Map<number, (delta: EngineDelta) => void>();
  const engines = [0, 1].map(() =>
    createMockEngine({
      model: 'bench',
      role: 'decode',
      clock,
      emitKvEvents: false,
      mocker: {
        blockSize: 16,
        kvBlocks: 16_384,
        contextTokens: 32_768,
        profile,
        speed: 1,
        script: [Uint32Array.of(1, 2, 3)],
        eosTokenIds: [0],
      },
    }),
  );
  const sink = {
    onStep: ({ deltas }: { deltas: EngineDelta[] }) => {
      for (const delta of deltas) waiting.get(delta.key)?.(delta);
    },
    onKv: () => undefined,
    onCacheReset: () => undefined,
    onStagedEnd: () => undefined,
    onFetchBegin: () => undefined,
    onFetchEnd: () => undefined,
    onInfo: () => undefined,
    onFault: (error: Error) => {
      throw error;
    },
  };
  for (const engine of engines) await engine.start(sink, AbortSignal.timeout(60_000));
  const ttfts: number[] = [];
  const totals: number[] = [];
  let key = 0;
  const one = (): Promise<void> =>
    new Promise((resolve) => {
      const own = ++key;
      const started = performance.now();
      let first = 0;
      waiting.set(own, (delta) => {
        if (first === 0 && delta.tokens.length > 0) first = performance.now() - started;
        if (delta.finish === 'none') return;
        waiting.delete(own);
        ttfts.push(first);
        totals.push(performance.now() - started);
        resolve();
      });
      engines[own % 2]!.submit({
        key: own,
        tokens: Uint32Array.from({ length: PROMPT_TOKENS }, () => rng.int(1000)),
        maxTokens: OUTPUT_TOKENS,
        minTokens: 0,
        ignoreEos: true,
        stopTokenIds: [],
        sampling: {},
      });
    });
  let left = shape.requests;
  const lane = async (): Promise<void> => {
    while (left-- > 0) await one();
  };
  await Promise.all(Array.from({ length: shape.inFlight }, lane));
  for (const engine of engines) await engine.stop();
  return { ttftMsP50: quantile(ttfts, 0.5), e2eMsP99: quantile(totals, 0.99) };
}
