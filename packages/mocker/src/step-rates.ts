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
  #prefillSteps = 0;
  #prefillTokens = 0;

  /** Mean duration of a step that decoded, 0 when there was none. */
  get decodeStepMs(): number {
    return this.#decodeSteps === 0 ? 0 : this.#decodeMs / this.#decodeSteps;
  }

  /** Tokens prefilled per millisecond, 0 when there was no prefill or it took no time. */
  get prefillTokensPerMs(): number {
    return this.#prefillMs === 0 ? 0 : this.#prefillTokens / this.#prefillMs;
  }

  /** Prompt tokens of the mean step that the rate of prefill is of, 0 when there was none. */
  get prefillStepTokens(): number {
    return this.#prefillSteps === 0 ? 0 : this.#prefillTokens / this.#prefillSteps;
  }

  record(batch: StepBatch, tookMs: number): void {
    if (batch.decodeSequences > 0) {
      this.#decodeMs = this.#decodeMs * KEEP + tookMs;
      this.#decodeSteps = this.#decodeSteps * KEEP + 1;
    }
    if (batch.prefillTokens >= TELLING_TOKENS) {
      this.#prefillMs = this.#prefillMs * KEEP + tookMs;
      this.#prefillSteps = this.#prefillSteps * KEEP + 1;
      this.#prefillTokens = this.#prefillTokens * KEEP + batch.prefillTokens;
    }
  }
}
