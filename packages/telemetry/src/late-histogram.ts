import { Histogram, type HistogramConfiguration } from 'prom-client';

const KEPT = 256;

/**
 * A histogram without labels for what is observed many times a second: values are kept and handed to prom-client some hundred
 * at a time, and when the metrics are read. One by one, in code that is cold each time, each costs as much as a token.
 */
export class LateHistogram {
  readonly #histogram: Histogram;
  readonly #kept = new Float64Array(KEPT);
  #count = 0;

  constructor(configuration: Omit<HistogramConfiguration<never>, 'collect' | 'labelNames'>) {
    const hand = (): void => this.#hand();
    this.#histogram = new Histogram({ ...configuration, collect: hand });
  }

  /** Throws for what is no finite number, as prom-client does. */
  observe(value: number): void {
    if (!Number.isFinite(value)) throw new TypeError(`not a finite number: ${value}`);
    this.#kept[this.#count++] = value;
    if (this.#count === KEPT) this.#hand();
  }

  #hand(): void {
    const count = this.#count;
    this.#count = 0;
    for (let at = 0; at < count; at++) this.#histogram.observe(this.#kept[at]!);
  }
}
