/** A first-in first-out queue with a limit: `push` answers false instead of growing past it. Amortised O(1). */
export class BoundedQueue<T> {
  readonly limit: number;
  #items: (T | undefined)[] = [];
  #head = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): boolean {
    if (this.length >= this.limit) return false;
    this.#items.push(item);
    return true;
  }

  shift(): T | undefined {
    if (this.#head >= this.#items.length) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head] = undefined;
    this.#head++;
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}
