import type { LifeEvent } from '@busbar/protocol';

/** Longer than the bus needs to notice that its connection is dead. */
const KEEP_MS = 10_000;
const MAX_EVENTS = 8_192;

export interface EndOfBooking {
  model: string;
  event: LifeEvent;
}

/** The ends of bookings of the last seconds: at least `KEEP_MS`, at most twice as long. */
export class RecentEnds {
  #young: EndOfBooking[] = [];
  #old: EndOfBooking[] = [];
  #turnedMs = performance.now();
  #isHeld = false;

  add(end: EndOfBooking): void {
    const nowMs = performance.now();
    const isDue = !this.#isHeld && nowMs - this.#turnedMs > KEEP_MS;
    if (isDue || this.#young.length >= MAX_EVENTS) {
      this.#old = this.#young;
      this.#young = [];
      this.#turnedMs = nowMs;
    }
    this.#young.push(end);
  }

  /** From now on only the bound on their number makes ends forgotten. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
  }

  /** Oldest first. */
  all(): EndOfBooking[] {
    return [...this.#old, ...this.#young];
  }
}
