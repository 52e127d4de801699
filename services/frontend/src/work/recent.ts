/** Longer than the bus needs to notice that its connection is dead. */
const KEEP_MS = 10_000;

/**
 * What happened in the last seconds: at least `KEEP_MS`, at most twice as long. Of more than `most` items in that time the
 * oldest are forgotten, at most `most` at once; `onForgotten` hears how many.
 */
export class Recent<T> {
  readonly #most: number;
  readonly #onForgotten: (count: number) => void;
  #young: T[] = [];
  #old: T[] = [];
  #turnedMs = performance.now();
  #isHeld = false;

  constructor(most: number, onForgotten: (count: number) => void) {
    this.#most = most;
    this.#onForgotten = onForgotten;
  }

  add(item: T): void {
    const nowMs = performance.now();
    const isDue = !this.#isHeld && nowMs - this.#turnedMs > KEEP_MS;
    if (isDue || this.#young.length >= this.#most) {
      if (!isDue && this.#old.length > 0) this.#onForgotten(this.#old.length);
      this.#old = this.#young;
      this.#young = [];
      this.#turnedMs = nowMs;
    }
    this.#young.push(item);
  }

  /** From now on only the bound on their number makes items forgotten. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
  }

  /** Oldest first. */
  all(): T[] {
    return [...this.#old, ...this.#young];
  }
}
