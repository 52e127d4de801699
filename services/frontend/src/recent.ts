/** Longer than the bus needs to notice that its connection is dead. */
const KEEP_MS = 10_000;
const MAX_ITEMS = 8_192;

/** What happened in the last seconds: at least `KEEP_MS`, at most twice as long. */
export class Recent<T> {
  #young: T[] = [];
  #old: T[] = [];
  #turnedMs = performance.now();
  #isHeld = false;

  add(item: T): void {
    const nowMs = performance.now();
    const isDue = !this.#isHeld && nowMs - this.#turnedMs > KEEP_MS;
    if (isDue || this.#young.length >= MAX_ITEMS) {
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
