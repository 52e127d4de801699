interface Event {
  atMs: number;
  /** Breaks ties, so that events of one instant run in the order in which they were planned. */
  order: number;
  run: () => void;
}

/** A virtual clock and what is planned on it. Time moves only from event to event. */
export class EventHeap {
  #nowMs = 0;
  #order = 0;
  readonly #heap: Event[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Plans `run` in `delayMs`; 0 means later in this instant, after all that is planned for it already. */
  after(delayMs: number, run: () => void): void {
    this.at(this.#nowMs + delayMs, run);
  }

  /** Plans `run` at `atMs`, or now when that is past. */
  at(atMs: number, run: () => void): void {
    const heap = this.#heap;
    const event = { atMs: Math.max(atMs, this.#nowMs), order: this.#order++, run };
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (isBefore(heap[parent]!, event)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  /** Moves the clock to the next event and runs it; false when none is left. */
  step(): boolean {
    const first = this.#pop();
    if (first === undefined) return false;
    this.#nowMs = first.atMs;
    first.run();
    return true;
  }

  #pop(): Event | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = at * 2 + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (isBefore(last, heap[child]!)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
