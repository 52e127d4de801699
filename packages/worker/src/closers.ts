/** What has to be closed, each as soon as it was opened. */
export class Closers {
  #open: (() => void | Promise<void>)[] = [];

  add(close: () => void | Promise<void>): void {
    this.#open.push(close);
  }

  /** Closes all of it, last first; what fails does not keep the rest from being closed. Rejects with the first failure. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.#open.splice(0).toReversed()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
