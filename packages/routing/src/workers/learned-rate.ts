const MIN = 1e-3;

/** An exponentially weighted mean that starts from a prior and follows measurements; never zero. */
export class LearnedRate {
  value: number;
  #samples = 0;
  readonly #weight: number;

  /** `weight`: share of a new sample once enough are known. The first samples count more, so that a wrong prior fades fast. */
  constructor(prior: number, weight = 0.1) {
    this.value = Math.max(prior, MIN);
    this.#weight = weight;
  }

  learn(sample: number): void {
    if (!(sample > 0) || !Number.isFinite(sample)) return;
    this.#samples++;
    const weight = Math.max(this.#weight, 1 / (this.#samples + 1));
    this.value = Math.max(MIN, this.value + weight * (sample - this.value));
  }
}
