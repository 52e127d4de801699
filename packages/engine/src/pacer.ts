import type { Clock } from '@busbar/base';

/** Timers have whole milliseconds; half of one early is as good as half of one late. */
const TOLERANCE_MS = 0.5;

/**
 * Calls back at points of a clock, one at a time. A call that comes late says which point it was for, so that the next point can be
 * reckoned from there and lateness never adds up. Points that are due already are reached through the event loop, never by
 * recursion, so that other work gets its turn.
 */
export class Pacer {
  readonly #clock: Clock;
  readonly #onDue: (dueMs: number) => void;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;

  constructor(clock: Clock, onDue: (dueMs: number) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get isArmed(): boolean {
    return this.#timer !== undefined || this.#immediate !== undefined;
  }

  /** Replaces the point that was set before. */
  arm(dueMs: number): void {
    this.cancel();
    const restMs = dueMs - this.#clock.monotonicMs();
    if (restMs <= TOLERANCE_MS) this.#immediate = setImmediate(() => this.#fire(dueMs));
    else this.#timer = setTimeout(() => this.#fire(dueMs), Math.round(restMs));
  }

  cancel(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#timer = undefined;
    this.#immediate = undefined;
  }

  #fire(dueMs: number): void {
    this.#timer = undefined;
    this.#immediate = undefined;
    if (dueMs - this.#clock.monotonicMs() > 2 * TOLERANCE_MS) this.arm(dueMs);
    else this.#onDue(dueMs);
  }
}
