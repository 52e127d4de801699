import { type HeldDecisions, limit } from '@busbar/protocol';
import type { Place } from './bookings.ts';

/** The decisions that this frontend holds, by the number of the ask that each answers: from the answer until it ended. */
export class DecisionHoldings {
  #next = 1;
  /** Asks that are neither answered nor given up, in order. */
  readonly #open = new Set<number>();
  readonly #askOf = new Map<string, number>();

  /** The number of a new ask. It must be settled or taken, whatever becomes of it. */
  ask(): number {
    const ask = this.#next++;
    this.#open.add(ask);
    return ask;
  }

  /** The ask was answered with this decision, which is held from now on. */
  take(ask: number, place: Place): void {
    this.#askOf.set(place.decisionId, ask);
    if (place.prefill !== undefined) this.#askOf.set(place.prefill.decisionId, ask);
    this.#open.delete(ask);
  }

  /** The ask is over, and nothing is held for it nor ever will be. Nothing after `take`. */
  settle(ask: number): void {
    this.#open.delete(ask);
  }

  /** The booking has ended. */
  release(decisionId: string): void {
    this.#askOf.delete(decisionId);
  }

  /** The ask that a held decision answers. */
  askOf(decisionId: string): number | undefined {
    return this.#askOf.get(decisionId);
  }

  get size(): number {
    return this.#askOf.size;
  }

  /** Asks so far. */
  get asks(): number {
    return this.#next - 1;
  }

  /** What is held of all asks that came before the first open one, in messages whose ranges follow each other. */
  lists(): HeldDecisions[] {
    const [firstOpen = this.#next] = this.#open;
    const held = [...this.#askOf]
      .filter(([, ask]) => ask < firstOpen)
      .toSorted(([, a], [, b]) => a - b);
    const lists: HeldDecisions[] = [];
    let list: HeldDecisions = { from: 0, before: firstOpen, decisionIds: [] };
    let last = 0;
    for (const [decisionId, ask] of held) {
      // Both legs of a split request are in one range.
      if (ask !== last && list.decisionIds.length >= limit('heldDecisions') - 1) {
        lists.push({ ...list, before: ask });
        list = { from: ask, before: firstOpen, decisionIds: [] };
      }
      list.decisionIds.push(decisionId);
      last = ask;
    }
    lists.push(list);
    return lists;
  }
}
