import { limit } from '@busbar/protocol';
import type { RequestEvent } from '../types.ts';
import type { Refusal } from './filter.ts';

/** From a worker's last sign of life until its lease is gone for good: a silent worker has come back by then or is no more. */
const SILENCE_MS = limit('leaseTtlMs') + limit('leaseGraceMs');

/** A request that waits because no worker can take it right now. */
export interface Waiting {
  readonly event: RequestEvent;
  deadlineMs: number;
  /** The deadline while all workers are silent: behind it the lease of one that does not come back is gone. */
  readonly silentDeadlineMs: number;
  /** Why it could not be placed the last time. */
  refusal: Refusal;
}

/** Requests in order of arrival, at most `limit`; each leaves by a placement, its deadline or its asker's cancel. */
export class AdmissionQueue {
  readonly limit: number;
  readonly #waiting = new Map<number, Waiting>();

  constructor(capacity: number) {
    this.limit = capacity;
  }

  get length(): number {
    return this.#waiting.size;
  }

  /** The entry, for at most `waitMs`; `patienceMs` is how long its asker listens. Undefined when the queue is full. */
  add(
    event: RequestEvent,
    refusal: Refusal,
    { nowMs, waitMs, patienceMs }: { nowMs: number; waitMs: number; patienceMs: number },
  ): Waiting | undefined {
    if (this.#waiting.size >= this.limit) return undefined;
    const deadlineMs = nowMs + Math.min(waitMs, patienceMs);
    const silentDeadlineMs = nowMs + Math.min(Math.max(waitMs, SILENCE_MS), patienceMs);
    const waiting = { event, refusal, deadlineMs, silentDeadlineMs };
    this.#waiting.set(event.key, waiting);
    return waiting;
  }

  /**
   * Whether an entry has waited long enough. Workers that are here and silent, all of them, may be starved for a moment: that
   * lengthens the wait once.
   */
  isDue(waiting: Waiting, isServed: boolean, nowMs: number): boolean {
    if (isServed && waiting.refusal === 'silent' && waiting.deadlineMs <= nowMs) {
      waiting.deadlineMs = waiting.silentDeadlineMs;
    }
    return waiting.deadlineMs <= nowMs;
  }

  remove(key: number): boolean {
    return this.#waiting.delete(key);
  }

  /** Everyone who waits, longest first. Entries may be removed meanwhile. */
  entries(): IterableIterator<Waiting> {
    return this.#waiting.values();
  }
}
