import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  compareSplits,
  findCrossover,
  payloadBytesPerMs,
  SPLIT_WORKLOADS,
} from '@busbar/simulator';
import { LARGE, SMALL, splitRun, words } from './split-setup.ts';

function assertNear(actual: number | undefined, expected: number | undefined, part: number): void {
  const text = `${actual} is not within ${part * 100} % of ${expected}`;
  assert.ok(actual !== undefined && expected !== undefined, text);
  assert.ok(Math.abs(actual / expected - 1) <= part, text);
}

describe('two machines with 1 Gbit/s between them', () => {
  it('split prompts of 3,000 words into 3.4 s, of 1,500 into 1.74 s, all of it the link', () => {
    for (const [count, measuredMs, bytes] of [
      [3_000, 3_407, 351.75e6],
      [1_500, 1_736, 176e6],
    ] as const) {
      const run = splitRun(SMALL, words(count, 1), 'always', 1);
      assert.deepEqual(run.violations, []);
      assert.equal(run.split.splits, run.requests);
      assertNear(run.ttftMs.p50, measuredMs, 0.15);
      assertNear(run.split.bytesMoved / run.requests, bytes, 0.02);
      const linkMs = run.split.bytesMoved / run.requests / payloadBytesPerMs(1);
      assertNear(run.split.observedTransferMs, linkMs, 0.02);
      assertNear(run.split.predictedTransferMs, run.split.observedTransferMs, 0.02);
    }
  });

  it('make four at once share the link: 12.5 to 13.1 s were measured', () => {
    const alone = splitRun(SMALL, words(3_000, 1), 'always', 1);
    const four = splitRun(SMALL, words(3_000, 4), 'always', 1);
    assertNear(four.ttftMs.p50, 12_800, 0.15);
    assertNear(four.split.observedTransferMs, 4 * alone.split.observedTransferMs, 0.1);
  });

  it('are left alone by mode auto, which is as fast as without prefill workers', () => {
    for (const workload of SPLIT_WORKLOADS) {
      const never = splitRun(SMALL, workload, 'never', 1);
      const auto = splitRun(SMALL, workload, 'auto', 1);
      assert.equal(auto.split.splits, 0, workload.name);
      assert.equal(auto.split.bytesMoved, 0);
      assertNear(auto.split.meanTtftMs, never.split.meanTtftMs, 0.1);
    }
  });
});

describe('the link rate from which on a split wins', () => {
  for (const [name, setup, atLeast, atMost] of [
    ['a small model', SMALL, 25, 100],
    ['a larger one', LARGE, 10, 25],
  ] as const) {
    it(`is for ${name} where the router predicts it, for lone requests`, () => {
      for (const count of [1_500, 3_000]) {
        const { ttftGbit, totalGbit, predictedGbit, decidedGbit } = findCrossover(
          setup,
          words(count, 1),
        );
        assertNear(predictedGbit, ttftGbit, 0.05);
        assert.equal(totalGbit, ttftGbit, 'nobody else is delayed');
        assert.ok(ttftGbit! > atLeast && ttftGbit! < atMost, `${ttftGbit} Gbit/s`);
        // A little earlier, for the sake of those who may come while a prompt is computed.
        assert.ok(decidedGbit! < ttftGbit! && decidedGbit! > ttftGbit! * 0.7, `${decidedGbit}`);
      }
    });

    it(`is for ${name} where mode auto begins to split most, for four at once`, () => {
      for (const count of [1_500, 3_000]) {
        const alone = findCrossover(setup, words(count, 1));
        const four = findCrossover(setup, words(count, 4));
        assertNear(four.decidedGbit, four.totalGbit, 0.1);
        assert.ok(four.totalGbit! < alone.totalGbit!, 'company makes a split pay earlier');
      }
    });
  }

  it('does not exist for lone requests when both workers are alike: the transfer comes on top', () => {
    const alike = {
      ...LARGE,
      workersOf: () => [
        { kvBlocks: 1_525, speed: 1 },
        { role: 'prefill' as const, kvBlocks: 1_525, speed: 1 },
      ],
    };
    const crossover = findCrossover(alike, words(3_000, 1));
    for (const gbit of Object.values(crossover)) assert.equal(gbit, undefined);
    assert.ok(findCrossover(alike, words(3_000, 4)).totalGbit! < 10, 'running decodes gain');
  });
});

it('mode auto is never behind the better of always and never, and ahead of both under load', () => {
  for (const setup of [SMALL, LARGE]) {
    const runs = compareSplits({
      ...setup,
      workloads: SPLIT_WORKLOADS,
      policies: ['predictive'],
      seeds: [1],
      modes: ['never', 'always', 'auto'],
      linkGbits: [1, 10, 25, 100, 400],
    });
    let ahead = 0;
    for (let i = 0; i < runs.length; i += 3) {
      const [never, always, auto] = runs.slice(i, i + 3).map(({ split }) => split.meanTotalMs);
      const best = Math.min(never!, always!);
      const { workload, linkGbit } = runs[i]!;
      assert.ok(auto! < best * 1.05, `${workload} at ${linkGbit}: ${auto}, best ${best}`);
      if (auto! < best * 0.99) ahead++;
    }
    assert.ok(ahead >= 5, `ahead in ${ahead} of ${runs.length / 3}`);
    for (const run of runs) assert.deepEqual(run.violations, []);
  }
});

it('threshold splits long prompts only', () => {
  for (const [count, splits] of [
    [1_500, 0],
    [3_000, 24],
  ] as const) {
    const setup = { ...SMALL, thresholdTokens: 2_000 };
    assert.equal(splitRun(setup, words(count, 1), 'threshold', 100).split.splits, splits);
  }
});

it('gives the same figures for the same seed, byte for byte', () => {
  const run = (): string => JSON.stringify(splitRun(SMALL, words(3_000, 4), 'auto', 25));
  assert.equal(run(), run());
});
