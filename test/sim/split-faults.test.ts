import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createRng } from '@busbar/base';
import { createRouterCore, type DisaggregationMode, ROUTER_DEFAULTS } from '@busbar/routing';
import {
  routerFactory,
  runWorkload,
  type SimulationRun,
  summarize,
  type WorkerSpec,
  type WorkloadDefinition,
} from '@busbar/simulator';
import { workload } from './setup.ts';
import { SMALL, splitRun, words } from './split-setup.ts';

const WALKS = 60;
const NAMES = { workload: 'faults', policy: 'predictive', seed: 1 } as const;

interface Walk {
  run: SimulationRun;
  isStrict: boolean;
}

/** Workers of both roles that come, die and refuse at random times, over a link of a random rate, in a random mode. */
function walk(seed: number): Walk {
  const rng = createRng(seed);
  const pick = <T>(choices: readonly T[]): T => choices[rng.int(choices.length)]!;
  const specs: WorkerSpec[] = [{ kvBlocks: 926, speed: 1 }];
  for (let i = 0; i < 4; i++) {
    const refusesFromMs = 500 + rng.int(8_000);
    specs.push({
      role: i < 2 ? 'prefill' : 'decode',
      kvBlocks: pick([500, 926, 1_693]),
      speed: pick([0.7, 1, 1.9]),
      ...(rng.next() < 0.3 ? { host: 'shared' } : {}),
      ...(rng.next() < 0.2 ? { joinMs: rng.int(3_000) } : {}),
      ...(rng.next() < 0.6 ? { killMs: 3_000 + rng.int(6_000) } : {}),
      ...(rng.next() < 0.5 ? { refusesMs: [refusesFromMs, refusesFromMs + 1_000] as const } : {}),
    });
  }
  const mode: DisaggregationMode = pick(['auto', 'always', 'always', 'threshold']);
  const isStrict = rng.next() < 0.3;
  const disaggregation = { ...ROUTER_DEFAULTS.disaggregation, mode, isStrict };
  const run = runWorkload(
    {
      profile: SMALL.profile,
      routers: pick([1, 2]),
      durationMs: 8_000,
      workersOf: () => specs,
      fabric: { gbit: pick([1, 10, 100]), latencyMs: 0.2, kvBytesPerToken: 114_688 },
      createRouter: routerFactory(createRouterCore, { disaggregation }),
    },
    pick([workload('unique'), workload('open-12'), words(3_000, 4), words(1_500, 4)]),
    'predictive',
    seed,
  );
  return { run, isStrict };
}

/** All prompts split over 1 Gbit/s: about 0.1 s of prefill, then 3 s of transfer. */
function atOneGbit(workers: readonly WorkerSpec[]): SimulationRun {
  const { profile, kvBytesPerToken } = SMALL;
  const disaggregation = { ...ROUTER_DEFAULTS.disaggregation, mode: 'always' as const };
  return runWorkload(
    {
      profile,
      workersOf: () => workers,
      fabric: { gbit: 1, latencyMs: 0.2, kvBytesPerToken },
      createRouter: routerFactory(createRouterCore, { disaggregation }),
    },
    words(3_000, 1),
    'predictive',
    1,
  );
}

it('a prefill worker that dies in a transfer: the decode worker computes the prompt at once', () => {
  const decoder: WorkerSpec = { kvBlocks: 926, speed: 1 };
  const run = atOneGbit([decoder, { role: 'prefill', kvBlocks: 1_693, speed: 1.9, killMs: 1_000 }]);
  const { violations, split, completed } = summarize(run, NAMES);
  assert.deepEqual(violations, []);
  assert.equal(completed, run.records.length);
  assert.equal(split?.splits, 0);
  assert.equal(split.fallbacks, 1, 'whoever comes later finds nobody who could prefill');
  const [first] = run.records;
  const ttftMs = first!.firstTokenMs! - first!.arrivedMs;
  assert.ok(ttftMs > 1_000 && ttftMs < 1_400, `${ttftMs} ms`);
  assert.ok(split.bytesMoved > 0.2 * 352e6 && split.bytesMoved < 0.4 * 352e6);
});

it('a decode worker that dies in a transfer: another one serves the request, and nothing waits for the first', () => {
  const prefiller: WorkerSpec = { role: 'prefill', kvBlocks: 1_693, speed: 1.9 };
  const first: WorkerSpec = { kvBlocks: 926, speed: 1, killMs: 1_000 };
  const run = atOneGbit([first, { kvBlocks: 926, speed: 0.5, joinMs: 700 }, prefiller]);
  const { violations, split, completed } = summarize(run, NAMES);
  assert.deepEqual(violations, []);
  assert.equal(completed, run.records.length);
  assert.equal(split?.splits, completed);
  assert.equal(run.records[0]?.splits, 2, 'its prompt is prefilled and moved once more');
  const whole = completed * 352e6;
  assert.ok(split.bytesMoved > whole + 0.2 * 352e6 && split.bytesMoved < whole + 0.4 * 352e6);
});

it('a link that is hopelessly overloaded: all is served in the end, whole where the KV waited for too long', () => {
  const prefiller: WorkerSpec = { role: 'prefill', kvBlocks: 926, speed: 1 };
  const setup = {
    ...SMALL,
    routers: 2,
    durationMs: 30_000,
    workersOf: ({ workers }: WorkloadDefinition) => [...workers, prefiller, prefiller],
  };
  // Minutes of waiting: long enough for what routers believe to run out under requests that still wait.
  const run = splitRun(setup, workload('open-18'), 'always', 1);
  assert.deepEqual(run.violations, []);
  assert.equal(run.completed, run.requests);
  assert.ok(run.split.splits > 500 && run.split.fallbacks > 0);
});

it('whoever dies or refuses at whatever stage: requests end once, nothing is staged, booked or on its way', () => {
  const seen = { splits: 0, fallbacks: 0, givenUp: 0, cutBytes: 0, rejected: 0 };
  for (let seed = 1; seed <= WALKS; seed++) {
    const { run, isStrict } = walk(seed);
    const summary = summarize(run, { ...NAMES, seed });
    assert.deepEqual(summary.violations, [], `walk ${seed}`);
    assert.equal(summary.completed + summary.failed + summary.rejected, summary.requests);
    seen.splits += summary.split?.splits ?? 0;
    seen.fallbacks += summary.split?.fallbacks ?? 0;
    seen.rejected += summary.rejected;
    const givenUp = run.records.filter((record) => record.isGivenUp).length;
    if (!isStrict) assert.equal(givenUp, 0, `walk ${seed}: only strict requests are given up`);
    seen.givenUp += givenUp;
    const delivered = run.transfers.reduce((sum, { bytes }) => sum + bytes, 0);
    seen.cutBytes += Math.max(0, (summary.split?.bytesMoved ?? 0) - delivered);
  }
  // The walk is worth something only when it comes by all of these.
  for (const [name, count] of Object.entries(seen)) assert.ok(count > 0, `no ${name} in any walk`);
  assert.ok(seen.fallbacks > 20 && seen.splits > 500, JSON.stringify(seen));
});
