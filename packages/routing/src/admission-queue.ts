import type { Refusal } from './filter.ts';
import type { RequestEvent } from './types.ts';

/** A request that waits because no worker can take it right now. */
export interface Waiting {
  readonly event: RequestEvent;
  readonly deadlineMs: number;
  /** Why it could not be placed the last time. */
  refusal: Refusal;
}

/** Requests in order of arrival, at most `limit`; each leaves by a placement, its deadline or its asker's cancel. */
export class AdmissionQueue {
  readonly limit: number;
  readonly #waiting = new Map<number, Waiting>();

  constructor(limit: number) {
    this.limit = limit;
  }

  get length(): number {
    return this.#waiting.size;
  }

  /** False when the queue is full. */
  add(event: RequestEvent, deadlineMs: number, refusal: Refusal): boolean {
    if (this.#waiting.size >= this.limit) return false;
    this.#waiting.set(event.key, { event, deadlineMs, refusal });
    return true;
  }

  remove(key: number): boolean {
    return this.#waiting.delete(key);
  }

  /** Everyone who waits, longest first. Entries may be removed meanwhile. */
  entries(): IterableIterator<Waiting> {
    return this.#waiting.values();
  }
}
