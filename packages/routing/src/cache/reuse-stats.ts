import { LearnedRate } from '../workers/learned-rate.ts';

/** Weight of the newest reuse in the means, once many were seen. */
const WEIGHT = 0.02;
/** Reuses until what was seen counts more than what is assumed. */
const TRUST_SAMPLES = 4;
/** Blocks in use come again within this many mean intervals. */
const HORIZON_INTERVALS = 4;
/** Squared variation of the intervals of random times and of shuffled rounds lie on either side of these. */
const RANDOM_VARIATION = 0.5;
const REGULAR_VARIATION = 0.25;
/** Share of all caches that may fill with blocks nobody asks for again before reuse is no longer assumed. */
const PATIENCE = 0.5;
/** Requests for each worker without any reuse after which it is less and less assumed, and after twice as many not at all. */
const NEWCOMERS = 16;

/** What is known about the reuse of blocks over all workers of one model. Each working set reports to it; the eviction price reads it. */
export class ReuseStats {
  /** Tokens prefilled per millisecond over all workers: one measure everywhere, so that noise of rates sets no price. */
  readonly tokensPerMs: LearnedRate;
  /** Of the model, and their capacity together. */
  workers = 0;
  capacityBlocks = 0;
  /** Blocks that were not used again for as long as a cache reaches back. */
  doubtfulBlocks = 0;
  #intervalMs = 0;
  #intervalSquare = 0;
  #samples = 0;
  #reusedBlocks = 0;
  #wastedBlocks = 0;
  /** Requests so far that brought nothing known, less those that did. */
  #newcomers = 0;

  constructor(priorTokensPerMs: number) {
    this.tokensPerMs = new LearnedRate(priorTokensPerMs, WEIGHT);
  }

  /** Share of new blocks that are asked for again: 1 at first, then what is seen. */
  get reuseRatio(): number {
    const unused = this.#wastedBlocks + this.doubtfulBlocks;
    const patience = Math.max(0, this.capacityBlocks * PATIENCE - unused);
    const doubt = this.#newcomers / (this.workers * NEWCOMERS) - 1;
    const assumed = patience * Math.max(0, 1 - Math.max(0, doubt));
    const reused = this.#reusedBlocks + assumed;
    return reused / Math.max(1, reused + unused);
  }

  /** Blocks that were not used for longer are taken for dead. */
  get horizonMs(): number {
    return this.#samples === 0 ? Number.POSITIVE_INFINITY : this.#intervalMs * HORIZON_INTERVALS;
  }

  /**
   * How regular reuse is, from 0 (at random times) to 1 (in rounds), by the squared coefficient of variation of the times
   * between uses: 1 for a Poisson process, 1/6 for shuffled rounds. Assumed regular at first.
   */
  get regularity(): number {
    if (this.#samples === 0) return 1;
    const mean = this.#intervalMs;
    const variation = mean === 0 ? 0 : this.#intervalSquare / (mean * mean) - 1;
    const distance = (RANDOM_VARIATION - variation) / (RANDOM_VARIATION - REGULAR_VARIATION);
    const trust = this.#samples / (this.#samples + TRUST_SAMPLES);
    return trust * Math.max(0, Math.min(1, distance)) + 1 - trust;
  }

  /** A request came of which this share of blocks was in use. */
  onRequest(reusedShare: number): void {
    this.#newcomers = Math.max(0, this.#newcomers + 1 - 2 * reusedShare);
  }

  /** Blocks of one request came again after `ageMs` in the mean; `firstBlocks` of them for the first time. */
  onReuse(firstBlocks: number, ageMs: number): void {
    this.#samples++;
    const weight = Math.max(WEIGHT, 1 / this.#samples);
    this.#intervalMs += weight * (ageMs - this.#intervalMs);
    this.#intervalSquare += weight * (ageMs * ageMs - this.#intervalSquare);
    this.#reusedBlocks += firstBlocks;
    this.#forget();
  }

  /** These blocks left a working set and were used only once. */
  onWasted(blocks: number): void {
    this.#wastedBlocks += blocks;
    this.#forget();
  }

  #forget(): void {
    if (this.#reusedBlocks + this.#wastedBlocks <= this.capacityBlocks * 2) return;
    this.#reusedBlocks /= 2;
    this.#wastedBlocks /= 2;
  }
}
