import type { Clock } from '@busbar/base';
import type { FetchReport } from '@busbar/engine';
import type { WorkerMetrics } from './metrics.ts';

/** Hears of every fetch of KV: the accounts of the links, say. */
export interface FetchObserver {
  began(key: number, prefillWorkerId: string): void;
  ended(key: number, report: FetchReport): void;
}

/** Counts and times fetches of KV, and tells its observer. */
export class FetchMeter {
  /** Set once the engine runs, if it exchanges KV at all. */
  observer: FetchObserver | undefined;
  readonly #clock: Clock;
  readonly #metrics: WorkerMetrics;
  readonly #beganMs = new Map<number, number>();

  constructor(clock: Clock, metrics: WorkerMetrics) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  began(key: number, prefillWorkerId: string | undefined): void {
    this.#beganMs.set(key, this.#clock.monotonicMs());
    if (prefillWorkerId !== undefined) this.observer?.began(key, prefillWorkerId);
  }

  /** Of a fetch that was not told of before nothing is counted. */
  ended(key: number, report: FetchReport): void {
    const beganMs = this.#beganMs.get(key);
    if (beganMs === undefined) return;
    this.#beganMs.delete(key);
    this.#metrics.fetched(report.outcome, report.bytes);
    if (report.outcome !== 'busy') {
      this.#metrics.fetchSeconds.observe((this.#clock.monotonicMs() - beganMs) / 1_000);
    }
    this.observer?.ended(key, report);
  }
}
