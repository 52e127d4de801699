/** Decisions whose event is awaited; of more than these the oldest are not measured, which leaves enough samples. */
const MAX_OPEN = 4_096;

/**
 * Measures how long a booking takes to reach other routers. `life` is heard by all routers alike, so the time from an own decision
 * until its own `booked` event comes back is the time that the other replicas work without it.
 */
export class Convergence {
  readonly #open = new Map<string, number>();
  readonly #observe: (seconds: number) => void;

  constructor(observe: (seconds: number) => void) {
    this.#observe = observe;
  }

  onPlaced(decisionId: string, nowMs: number): void {
    this.#open.set(decisionId, nowMs);
    if (this.#open.size <= MAX_OPEN) return;
    const oldest = this.#open.keys().next();
    if (oldest.done !== true) this.#open.delete(oldest.value);
  }

  onSeen(decisionId: string, nowMs: number): void {
    const placedMs = this.#open.get(decisionId);
    if (placedMs === undefined) return;
    this.#open.delete(decisionId);
    this.#observe((nowMs - placedMs) / 1000);
  }
}
