import { hashBlocks } from '@busbar/blocks';
import { profileByName } from './profiles.ts';
import type { MockDelta, Mocker, MockerConfig, MockRequest, StepOutput } from './types.ts';

/** What the tests of this package share. */

export const EOS = 2;

export function testConfig(changes: Partial<MockerConfig> = {}): MockerConfig {
  return {
    blockSize: 16,
    kvBlocks: 926,
    contextTokens: 4096,
    profile: profileByName('instant')!,
    speed: 1,
    script: [Uint32Array.of(10, 11, 12), Uint32Array.of(20, 21)],
    eosTokenIds: [EOS],
    ...changes,
  };
}

/** A prompt whose tokens are `family`, then `own`, each drawn from a range of its own. */
export function prompt(family: number, familyTokens: number, own = 0, ownTokens = 0): Uint32Array {
  const tokens = new Uint32Array(familyTokens + ownTokens);
  for (let i = 0; i < familyTokens; i++) tokens[i] = 1000 + family * 10_000 + i;
  for (let i = 0; i < ownTokens; i++) tokens[familyTokens + i] = 5_000_000 + own * 1000 + i;
  return tokens;
}

export function request(
  key: number,
  tokens: Uint32Array,
  changes: Partial<MockRequest> = {},
  blockSize = 16,
): MockRequest {
  return {
    key,
    tokens,
    hashes: hashBlocks(tokens, blockSize, 1337n),
    hashSeed: 1337n,
    maxTokens: 8,
    minTokens: 0,
    ignoreEos: true,
    stopTokenIds: [],
    seed: key,
    ...changes,
  };
}

/** A mocker under a clock that jumps to the end of each step. */
export class Driver {
  nowMs = 0;
  readonly mocker: Mocker;
  readonly deltas: MockDelta[] = [];
  /** When each request got its first token. */
  readonly firstTokenMs = new Map<number, number>();

  constructor(mocker: Mocker) {
    this.mocker = mocker;
  }

  /** One step; undefined when the mocker is idle. */
  step(): StepOutput | undefined {
    const plan = this.mocker.beginStep(this.nowMs);
    if (plan === undefined) return undefined;
    this.nowMs += plan.durationMs;
    const output = this.mocker.endStep(this.nowMs);
    for (const delta of output.deltas) {
      this.deltas.push(delta);
      if (delta.cachedTokens !== undefined) this.firstTokenMs.set(delta.key, this.nowMs);
    }
    return output;
  }

  /** Steps until the mocker is idle; throws after `limit` steps. */
  drain(limit = 10_000): void {
    for (let steps = 0; this.step() !== undefined; steps++) {
      if (steps > limit) throw new Error(`the mocker is not idle after ${limit} steps`);
    }
  }

  tokensOf(key: number): number[] {
    return this.deltas.filter((delta) => delta.key === key).flatMap((delta) => delta.tokens);
  }

  finishOf(key: number): string[] {
    return this.deltas
      .filter((delta) => delta.key === key && delta.finish !== 'none')
      .map((delta) => delta.finish);
  }

  cachedTokensOf(key: number): number | undefined {
    return this.deltas.find((delta) => delta.key === key && delta.cachedTokens !== undefined)
      ?.cachedTokens;
  }
}
