import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '@busbar/base';
import { limit } from '@busbar/protocol';
import type { FetchReport } from '../port.ts';
import { type FetchOptions, type FetchResult, fetchBlocks } from './fetch-blocks.ts';

const MAX_FETCHES = limit('kvFetches');
/** Before a server without any room is asked again: twice as long each time, as sends last from milliseconds to seconds. */
const BUSY_PAUSE_MS = 50;
const MAX_BUSY_PAUSE_MS = 800;

export interface FetchJob extends Omit<FetchOptions, 'onWait'> {
  key: number;
  /** Point of the clock until which the other side surely keeps the blocks; a fetch that cannot begin before is not begun. */
  validUntilMs: number;
}

export interface FetchEvents {
  /** Bytes are about to move. */
  onBegin(key: number): void;
  /** What began moves nothing: the other side serves others first. Another `onBegin` may follow. */
  onBusy(key: number): void;
  /**
   * The one end of a job, except of one that was cancelled before it began. `hasBegun`: an `onBegin` stands open. A job that was not
   * begun in time, or for which there was no room, fails without.
   */
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
        const abort = new AbortController();
        this.#running.set(job.key, { abort, done: this.#run(job, abort.signal) });
      }
    }
  }

  async #run(job: FetchJob, signal: AbortSignal): Promise<void> {
    const { key } = job;
    const open = new OpenFetch(key, this.#events);
    let result = await this.#fetch(job, open, signal);
    for (let tries = 0; result.error?.code === 'TRANSFER_BUSY'; tries++) {
      open.close();
      const pauseMs = Math.min(BUSY_PAUSE_MS * 2 ** tries, MAX_BUSY_PAUSE_MS);
      if (this.#clock.monotonicMs() + pauseMs >= job.validUntilMs) break;
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
      result = await this.#fetch(job, open, signal);
    }
    this.#running.delete(key);
    const report = reportOf(result);
    // A link that breaks while its fetch waits has failed all the same; one that only never had its turn has not.
    if (report.outcome === 'failed' && result.error?.code !== 'TRANSFER_BUSY') open.open();
    this.#events.onEnd(key, report, open.isOpen);
    this.#next();
  }

  #fetch(job: FetchJob, open: OpenFetch, signal: AbortSignal): Promise<FetchResult> {
    if (!signal.aborted) open.open();
    const onWait = (isWaiting: boolean): void => (isWaiting ? open.close() : open.open());
    return fetchBlocks({ ...job, onWait }, signal);
  }
}

/** Whether the sink was told of a fetch as one that moves bytes. */
class OpenFetch {
  readonly #key: number;
  readonly #events: FetchEvents;
  isOpen = false;

  constructor(key: number, events: FetchEvents) {
    this.#key = key;
    this.#events = events;
  }

  open(): void {
    if (this.isOpen) return;
    this.isOpen = true;
    this.#events.onBegin(this.#key);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#events.onBusy(this.#key);
  }
}

function reportOf({ bytes, error }: FetchResult): FetchReport {
  if (error === undefined) return { outcome: 'ok', bytes };
  if (error.code === 'TRANSFER_CANCELLED') return { outcome: 'cancelled', bytes };
  return { outcome: 'failed', bytes, reason: error.message };
}
