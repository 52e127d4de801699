import type { Clock } from '@busbar/base';
import { limit } from '@busbar/protocol';
import type { FetchReport } from '../port.ts';
import { type FetchOptions, type FetchResult, fetchBlocks } from './fetch-blocks.ts';

const MAX_FETCHES = limit('kvFetches');

export interface FetchJob extends FetchOptions {
  key: number;
  /** Point of the clock until which the other side surely keeps the blocks; a fetch that cannot begin before is not begun. */
  validUntilMs: number;
}

export interface FetchEvents {
  onBegin(key: number): void;
  /** Follows `onBegin`, and comes without it for a job that was not begun in time. Not for one that was cancelled before. */
  onEnd(key: number, report: FetchReport, hasBegun: boolean): void;
}

/** Runs fetches, a few at a time, in the order in which they came. */
export class FetchPool {
  readonly #clock: Clock;
  readonly #events: FetchEvents;
  readonly #running = new Map<number, { abort: AbortController; done: Promise<void> }>();
  #waiting: FetchJob[] = [];

  constructor(clock: Clock, events: FetchEvents) {
    this.#clock = clock;
    this.#events = events;
  }

  start(job: FetchJob): void {
    this.#waiting.push(job);
    this.#next();
  }

  /** Unknown keys are ignored. */
  cancel(key: number): void {
    this.#waiting = this.#waiting.filter((job) => job.key !== key);
    this.#running.get(key)?.abort.abort();
  }

  /** Cancels all; resolves when the last one was reported. */
  async stop(): Promise<void> {
    this.#waiting = [];
    const running = [...this.#running.values()];
    for (const { abort } of running) abort.abort();
    await Promise.all(running.map(({ done }) => done));
  }

  #next(): void {
    while (this.#running.size < MAX_FETCHES) {
      const job = this.#waiting.shift();
      if (job === undefined) return;
      if (this.#clock.monotonicMs() >= job.validUntilMs) {
        const reason =
          'the time for which the KV was promised ran out before its fetch could begin';
        this.#events.onEnd(job.key, { outcome: 'failed', bytes: 0, reason }, false);
      } else {
        this.#run(job);
      }
    }
  }

  #run(job: FetchJob): void {
    const abort = new AbortController();
    this.#events.onBegin(job.key);
    const done = this.#report(job, fetchBlocks(job, abort.signal));
    this.#running.set(job.key, { abort, done });
  }

  async #report({ key }: FetchJob, fetch: Promise<FetchResult>): Promise<void> {
    const result = await fetch;
    this.#running.delete(key);
    this.#events.onEnd(key, reportOf(result), true);
    this.#next();
  }
}

function reportOf({ bytes, error }: FetchResult): FetchReport {
  if (error === undefined) return { outcome: 'ok', bytes };
  if (error.code === 'TRANSFER_CANCELLED') return { outcome: 'cancelled', bytes };
  return { outcome: 'failed', bytes, reason: error.message };
}
