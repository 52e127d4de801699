/** Hands out small integers, lowest free first, so that arrays indexed by them stay dense and runs repeat. */
export class SlotPool {
  #free: number[] = [];
  #used = 0;

  /** All integers ever handed out are below this. */
  get highWater(): number {
    return this.#used;
  }

  take(): number {
    return this.#free.pop() ?? this.#used++;
  }

  /** Gives `slot` back. The caller has cleared everything that is kept under it. */
  release(slot: number): void {
    let at = this.#free.length;
    while (at > 0 && this.#free[at - 1]! < slot) at--;
    this.#free.splice(at, 0, slot);
  }
}
