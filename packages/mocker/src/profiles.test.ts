import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMocker } from './mocker.ts';
import { PROFILES, profileByName } from './profiles.ts';
import { Driver, prompt, request, testConfig } from './testing.ts';
import type { StepBatch } from './types.ts';

function near(actual: number, expected: number, ratio: number): void {
  const text = `${actual.toFixed(2)} is not within ${ratio * 100} % of ${expected}`;
  assert.ok(Math.abs(actual / expected - 1) <= ratio, text);
}

function driverFor(name: string, kvBlocks: number): Driver {
  return new Driver(createMocker(testConfig({ profile: profileByName(name)!, kvBlocks })));
}

/** Output tokens a second of `inFlight` clients that each ask again as soon as they are answered. */
function closedLoopTokensPerSec(driver: Driver, inFlight: number, requests: number): number {
  let sent = 0;
  let tokens = 0;
  const send = (): void => {
    if (sent === requests) return;
    driver.mocker.submit(request(sent, prompt(0, 0, sent++, 512), { maxTokens: 128 }));
  };
  for (let i = 0; i < inFlight; i++) send();
  for (let output = driver.step(); output !== undefined; output = driver.step()) {
    for (const delta of output.deltas) {
      tokens += delta.tokens.length;
      if (delta.finish !== 'none') send();
    }
  }
  return (tokens / driver.nowMs) * 1000;
}

describe('seed-8gb', () => {
  it('takes 80 ms to the first token of 1,560, 15 ms when the prefix is cached, 30 ms for 512', () => {
    const driver = driverFor('seed-8gb', 926);
    const ttftMs = (key: number, tokens: Uint32Array): number => {
      const sentMs = driver.nowMs;
      driver.mocker.submit(request(key, tokens));
      driver.drain();
      return driver.firstTokenMs.get(key)! - sentMs;
    };
    near(ttftMs(1, prompt(1, 1535, 1, 25)), 80, 0.03);
    near(ttftMs(2, prompt(1, 1535, 2, 25)), 15, 0.05);
    near(ttftMs(3, prompt(2, 512)), 30, 0.03);
  });

  it('makes 1,509 tokens a second at 32 in flight, 512 in and 128 out', () => {
    near(closedLoopTokensPerSec(driverFor('seed-8gb', 2048), 32, 320), 1509, 0.03);
  });

  it('decodes one sequence at 13 ms a token', () => {
    const driver = driverFor('seed-8gb', 926);
    driver.mocker.submit(request(1, prompt(1, 16), { maxTokens: 101 }));
    driver.drain();
    near((driver.nowMs - driver.firstTokenMs.get(1)!) / 100, 13.1, 0.01);
    near(driver.mocker.load().decodeStepMs, profileByName('seed-8gb')!.decodeStepMs, 0.01);
  });

  it('announces the prefill rate that it reaches', () => {
    const driver = driverFor('seed-8gb', 926);
    driver.mocker.submit(request(1, prompt(1, 1560)));
    driver.drain();
    const profile = profileByName('seed-8gb')!;
    near(driver.mocker.load().prefillTokensPerMs, profile.prefillTokensPerMs, 0.05);
    assert.equal(driver.mocker.load().prefillStepTokens, 1560);
  });

  it('takes a base step for each 2,048 tokens of a prompt, and one for the first of them', () => {
    const ttftMs = (tokens: number): number => {
      const driver = driverFor('seed-8gb', 926);
      driver.mocker.submit(request(1, prompt(1, tokens)));
      driver.drain();
      return driver.firstTokenMs.get(1)!;
    };
    const computeMs = (tokens: number): number => 0.0283 * tokens + 0.95e-5 * tokens ** 2;
    for (const [tokens, steps] of [
      [1, 1],
      [15, 1],
      [2_048, 1],
      [2_049, 2],
      [3_072, 2],
    ] as const) {
      near(ttftMs(tokens), 13 * steps + computeMs(tokens), 0.001);
    }
  });

  it('shares the base of a step with running sequences', () => {
    const driver = driverFor('seed-8gb', 926);
    driver.mocker.submit(request(1, prompt(1, 16), { maxTokens: 50 }));
    for (let step = 0; step < 10; step++) driver.step();
    const sentMs = driver.nowMs;
    driver.mocker.submit(request(2, prompt(2, 512)));
    driver.drain();
    near(driver.firstTokenMs.get(2)! - sentMs, 30 + 0.12, 0.01);
  });

  it('takes half the time at twice the speed', () => {
    const times = [1, 2].map((speed) => {
      const config = testConfig({ profile: profileByName('seed-8gb')!, speed });
      const driver = new Driver(createMocker(config));
      driver.mocker.submit(request(1, prompt(1, 700)));
      driver.drain();
      return driver.nowMs;
    });
    near(times[0]! / times[1]!, 2, 1e-9);
  });
});

describe('dynamo-mocker', () => {
  const batch: StepBatch = {
    prefillTokens: 0,
    prefillPairs: 0,
    decodeSequences: 0,
    activeKvTokens: 0,
    kvTokens: 10_000,
  };

  it('follows the published polynomials', () => {
    const { stepMs } = profileByName('dynamo-mocker')!;
    near(stepMs({ ...batch, prefillTokens: 1000 }), 32.105859, 1e-6);
    near(stepMs({ ...batch, decodeSequences: 4, activeKvTokens: 5000 }), 26.31, 1e-6);
    near(stepMs({ ...batch, decodeSequences: 4, activeKvTokens: 50_000 }), 34.01, 1e-6);
    const both = stepMs({
      ...batch,
      prefillTokens: 1000,
      decodeSequences: 4,
      activeKvTokens: 5000,
    });
    near(both, 32.105859 + 26.31, 1e-6);
  });
});

describe('qwen3-32b-a100', () => {
  it('prefills at half of the peak, decodes at 80 % of the memory bandwidth, and announces both', () => {
    const profile = profileByName('qwen3-32b-a100')!;
    const driver = driverFor(profile.name, 1_500);
    driver.mocker.submit(request(1, prompt(1, 3_072), { maxTokens: 101 }));
    driver.drain();
    const firstMs = driver.firstTokenMs.get(1)!;
    near(3_072 / firstMs, profile.prefillTokensPerMs, 0.05);
    near((3_072 * 65.6e9) / (firstMs / 1_000) / 312e12, 0.5, 0.1);
    near((driver.nowMs - firstMs) / 100, profile.decodeStepMs, 0.02);
  });
});

describe('instant', () => {
  it('takes no time, and still one step a token', () => {
    const driver = driverFor('instant', 926);
    driver.mocker.submit(request(1, prompt(1, 500), { maxTokens: 20 }));
    let steps = 0;
    while (driver.step() !== undefined) steps++;
    assert.equal(driver.nowMs, 0);
    assert.equal(steps, 20);
  });
});

it('finds profiles by their name only', () => {
  assert.deepEqual(Object.keys(PROFILES), [
    'seed-8gb',
    'dynamo-mocker',
    'qwen3-32b-a100',
    'instant',
  ]);
  assert.equal(profileByName('toString'), undefined);
});
