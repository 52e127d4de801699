import type { StepBatch } from './types.ts';

/** How much of the past a step leaves: the mean reaches back about twenty steps. */
const KEEP = 0.95;
/** Steps with fewer prompt tokens tell of the fixed cost of a step, not of the speed of prefill. */
const TELLING_TOKENS = 256;

/** What the last steps took, as a worker reports it. */
export class StepRates {
  #decodeMs = 0;
  #decodeSteps = 0;
  #prefillMs = 0;
  #prefillTokens = 0;

  /** Mean duration of a step that decoded, 0 when there was none. */
  get decodeStepMs(): number {
    return this.#decodeSteps === 0 ? 0 : this.#decodeMs / this.#decodeSteps;
  }

  /** Tokens prefilled per millisecond, 0 when there was no prefill or it took no time. */
  get prefillTokensPerMs(): number {
    return this.#prefillMs === 0 ? 0 : this.#prefillTokens / this.#prefillMs;
  }

  record(batch: StepBatch, tookMs: number): void {
    if (batch.decodeSequences > 0) {
      this.#decodeMs = this.#decodeMs * KEEP + tookMs;
      this.#decodeSteps = this.#decodeSteps * KEEP + 1;
    }
    if (batch.prefillTokens >= TELLING_TOKENS) {
      this.#prefillMs = this.#prefillMs * KEEP + tookMs;
      this.#prefillTokens = this.#prefillTokens * KEEP + batch.prefillTokens;
    }
  }
}
