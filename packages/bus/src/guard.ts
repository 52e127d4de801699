/** Hears of every error that has no caller: thrown or rejected by a handler, or told by the server. */
export type BusErrorListener = (error: unknown, where: string) => void;

function warn(error: unknown, where: string): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.emitWarning(`${where}: ${text}`, { code: 'BUSBAR_BUS' });
}

/** Runs handlers so that no throw and no rejection leaves them, and knows which are still running. */
export class Guard {
  readonly #onError: BusErrorListener;
  readonly #running = new Set<Promise<unknown>>();
  #errors = 0;

  constructor(onError: BusErrorListener = warn) {
    this.#onError = onError;
  }

  get errors(): number {
    return this.#errors;
  }

  run<T>(handler: (argument: T) => unknown, argument: T, where: string): void {
    try {
      const result = handler(argument);
      // A handler that is declared to return nothing may still be an async function.
      if (result instanceof Promise) this.#track(result, where);
    } catch (error) {
      this.report(error, where);
    }
  }

  report(error: unknown, where: string): void {
    this.#errors++;
    try {
      this.#onError(error, where);
    } catch {
      // The listener is the last one to tell.
    }
  }

  /** Resolves when no async handler runs any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #track(promise: Promise<unknown>, where: string): void {
    const settled = promise
      .catch((error: unknown) => this.report(error, where))
      .finally(() => this.#running.delete(settled));
    this.#running.add(settled);
  }
}
