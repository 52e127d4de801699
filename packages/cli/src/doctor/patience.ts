/** Waits with a limit, and keeps what was given up: a diagnosis of a broken stack must not hang on it. */
export class Patience {
  readonly #givenUp: string[] = [];

  /** What took too long so far, each with its limit. */
  get givenUp(): readonly string[] {
    return this.#givenUp;
  }

  /** What `work` resolves with; undefined when it rejects, or has not ended after `limitMs`. Never rejects. */
  async wait<T>(what: string, limitMs: number, work: Promise<T>): Promise<T | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => {
        this.#givenUp.push(`${what} took longer than ${limitMs / 1_000} s`);
        resolve(undefined);
      }, limitMs);
    });
    try {
      return await Promise.race([work.catch(() => undefined), limit]);
    } finally {
      clearTimeout(timer);
    }
  }
}
