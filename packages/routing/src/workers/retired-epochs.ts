const NAMES = 4096;
const EPOCHS = 8;

/**
 * Epochs of earlier lives of workers, so that what is still on its way from them is not taken for a new life. Bounded: the
 * name that left longest ago is forgotten first.
 */
export class RetiredEpochs {
  readonly #byName = new Map<string, number[]>();

  has(workerId: string, epoch: number): boolean {
    return this.#byName.get(workerId)?.includes(epoch) === true;
  }

  add(workerId: string, epoch: number): void {
    const epochs = (this.#byName.get(workerId) ?? []).filter((other) => other !== epoch);
    epochs.push(epoch);
    if (epochs.length > EPOCHS) epochs.shift();
    this.#byName.delete(workerId);
    this.#byName.set(workerId, epochs);
    if (this.#byName.size > NAMES) {
      for (const oldest of this.#byName.keys()) {
        this.#byName.delete(oldest);
        break;
      }
    }
  }

  /** The same process registered again, after a partition say. */
  revive(workerId: string, epoch: number): void {
    const epochs = this.#byName.get(workerId);
    const at = epochs?.indexOf(epoch) ?? -1;
    if (at >= 0) epochs?.splice(at, 1);
  }
}
