/** Lets some sends run at once; the others have their turn in the order in which they came. */
export class SendSlots {
  readonly #limit: number;
  readonly #running = new Set<object>();
  readonly #waiting = new Map<object, () => void>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** True: `owner` may send at once. False: `onTurn` is called when it may, unless it leaves before. */
  enter(owner: object, onTurn: () => void): boolean {
    if (this.#running.size < this.#limit) {
      this.#running.add(owner);
      return true;
    }
    this.#waiting.set(owner, onTurn);
    return false;
  }

  /** Ends the send or the wait of `owner`; one that has neither is ignored. */
  leave(owner: object): void {
    this.#waiting.delete(owner);
    if (!this.#running.delete(owner)) return;
    const [next] = this.#waiting;
    if (next === undefined) return;
    const [nextOwner, onTurn] = next;
    this.#waiting.delete(nextOwner);
    this.#running.add(nextOwner);
    onTurn();
  }
}
