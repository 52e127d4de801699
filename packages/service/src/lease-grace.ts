import { limit } from '@busbar/protocol';

/**
 * Expired leases whose owners may live: when NATS restarts, leases expire and come back a moment later. Tells of those
 * that stay away for `leaseGraceMs`.
 */
export class LeaseGrace {
  readonly #onGone: (key: string) => void;
  readonly #timers = new Map<string, NodeJS.Timeout>();

  constructor(onGone: (key: string) => void) {
    this.#onGone = onGone;
  }

  /** The lease is not there. Said again, it changes nothing: the first time counts. */
  expired(key: string): void {
    if (this.#timers.has(key)) return;
    const timer = setTimeout(() => {
      this.#timers.delete(key);
      this.#onGone(key);
    }, limit('leaseGraceMs'));
    this.#timers.set(key, timer);
  }

  /** The lease is there. */
  held(key: string): void {
    clearTimeout(this.#timers.get(key));
    this.#timers.delete(key);
  }

  stop(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
