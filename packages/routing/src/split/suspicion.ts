/** After the first failure; doubled with each further one. */
const FIRST_MS = 5_000;
/** A way that was repaired is tried again within this. */
const LONGEST_MS = 300_000;

/** What failed is left alone for a while, longer each time, until it succeeds again. */
export class Suspicion {
  /** No request goes there until this time. */
  untilMs = Number.NEGATIVE_INFINITY;
  readonly #forgiven: number;
  #failures: number;

  /** `forgiven`: failures in a row without consequence, where single ones may be the fault of a request. */
  constructor(forgiven: number) {
    this.#forgiven = forgiven;
    this.#failures = -forgiven;
  }

  isOpen(nowMs: number): boolean {
    return nowMs < this.untilMs;
  }

  /** Failures while it is left alone tell nothing new: they began before. */
  fail(nowMs: number): void {
    if (this.isOpen(nowMs)) return;
    if (this.#failures >= 0) {
      this.untilMs = nowMs + Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#failures);
    }
    this.#failures = Math.min(this.#failures + 1, 16);
  }

  succeed(): void {
    this.#failures = -this.#forgiven;
    this.untilMs = Number.NEGATIVE_INFINITY;
  }
}
