import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createRng } from '@busbar/base';
import { type DisaggregationMode, SPLIT_LATER_TERMS } from '@busbar/routing';
import {
  type Arrival,
  checkRun,
  runWorkload,
  type SimulationRun,
  splitSetup,
  type WorkerSpec,
  type WorkloadDefinition,
} from '@busbar/simulator';
import { SMALL } from './split-setup.ts';

const REPEATS = 4;
/** So slow that the router never splits, and so fast that the link is not what is measured. */
const SLOW_GBIT = 0.01;
const FAST_GBIT = 10;

interface Prompt {
  tokens: number;
  /** Of its beginning, which was asked before. */
  cachedTokens: number;
}

const PROMPTS: readonly Prompt[] = [
  ...[15, 60, 250, 800, 1_500, 3_000].map((tokens) => ({ tokens, cachedTokens: 0 })),
  { tokens: 1_500, cachedTokens: 1_488 },
];

/** Such prompts one at a time, all with the same beginning. */
function alone({ tokens: count, cachedTokens: cached }: Prompt): WorkloadDefinition {
  const rng = createRng(count);
  const draw = (length: number): number[] => Array.from({ length }, () => 100 + rng.int(100_000));
  const shared = draw(cached);
  let sent = 0;
  const next = (atMs: number): Arrival[] => {
    if (sent > REPEATS) return [];
    const tokens = Uint32Array.from([...shared, ...draw(count - cached)]);
    const rest = { maxTokens: 4, ignoreEos: true, seed: 1, isRepeat: cached > 0 };
    return [{ atMs, request: { tokens, tag: sent++, ...rest } }];
  };
  return {
    name: `alone-${count}-${cached}`,
    title: `${count} tokens, ${cached} of them asked before`,
    workers: [],
    create: () => ({
      arrivals: () => next(0).values(),
      onFinished: ({ atMs }) => next(atMs + 1_000),
    }),
  };
}

/** A decode worker whose base step takes 130 ms, and a prefill worker whose base step takes 26. */
const SLOW: readonly WorkerSpec[] = [
  { kvBlocks: 926, speed: 0.1 },
  { role: 'prefill', kvBlocks: 926, speed: 0.5 },
];

function run(mode: DisaggregationMode, gbit: number, prompt: Prompt): SimulationRun {
  const setup = splitSetup({ ...SMALL, workersOf: () => SLOW }, mode, gbit);
  const done = runWorkload(setup, alone(prompt), 'predictive', 1);
  assert.deepEqual(checkRun(done), []);
  return done;
}

/** The last of them, when the router has learned the rates: what both predictions said, and what passed. */
function lastOf({ records, decisions }: SimulationRun): {
  measuredMs: number;
  toldMs: number | undefined;
  localMs: number;
  pairMs: number;
} {
  const record = records.at(-1);
  const decision = decisions.at(-1);
  assert.ok(record?.firstTokenMs !== undefined && decision?.pair !== undefined);
  return {
    measuredMs: record.firstTokenMs - record.arrivedMs,
    toldMs: record.predictedTtftMs,
    localMs: ttftOf(decision.local.terms),
    pairMs: ttftOf(decision.pair.terms),
  };
}

function ttftOf(terms: Readonly<Record<string, number>>): number {
  const own = Object.entries(terms).filter(([name]) => !SPLIT_LATER_TERMS.includes(name));
  return own.reduce((sum, [, ms]) => sum + ms, 0);
}

function assertNear(predictedMs: number | undefined, measuredMs: number, part: number): void {
  const text = `${predictedMs} ms are not within ${part * 100} % of ${measuredMs}`;
  assert.ok(predictedMs !== undefined && Math.abs(predictedMs / measuredMs - 1) <= part, text);
}

describe('the predicted time to the first token, on idle workers with a long base step,', () => {
  for (const prompt of PROMPTS) {
    const title = `${prompt.tokens} tokens, ${prompt.cachedTokens} of them cached`;

    it(`is what one worker takes for ${title}`, () => {
      const done = run('auto', SLOW_GBIT, prompt);
      assert.ok(done.decisions.every(({ isSplit }) => !isSplit));
      const { measuredMs, toldMs, localMs } = lastOf(done);
      assertNear(localMs, measuredMs, 0.08);
      assertNear(toldMs, measuredMs, 0.08);
    });

    it(`is what two take for ${title}`, () => {
      const done = run('always', FAST_GBIT, prompt);
      assert.ok(done.decisions.every(({ isSplit }) => isSplit));
      const { measuredMs, toldMs, pairMs } = lastOf(done);
      assertNear(pairMs, measuredMs, 0.03);
      assertNear(toldMs, measuredMs, 0.03);
      const transfer = done.transfers.at(-1)!;
      assertNear(transfer.predictedMs, transfer.observedMs, 0.03);
      // What is left is the prefill leg.
      assertNear(pairMs - transfer.predictedMs, measuredMs - transfer.observedMs, 0.08);
    });
  }
});
