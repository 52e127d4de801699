/** Requests whose KV waits here to be fetched: engine keys by frontend and stream id of the prefill leg, and back. */
export class StagedRequests {
  readonly #byFrontend = new Map<string, Map<number, number>>();
  readonly #byKey = new Map<number, { frontendId: string; streamId: number }>();

  get size(): number {
    return this.#byKey.size;
  }

  add(frontendId: string, streamId: number, key: number): void {
    let keys = this.#byFrontend.get(frontendId);
    if (keys === undefined) {
      keys = new Map();
      this.#byFrontend.set(frontendId, keys);
    }
    keys.set(streamId, key);
    this.#byKey.set(key, { frontendId, streamId });
  }

  keyOf(frontendId: string, streamId: number): number | undefined {
    return this.#byFrontend.get(frontendId)?.get(streamId);
  }

  keysOf(frontendId: string): number[] {
    return [...(this.#byFrontend.get(frontendId)?.values() ?? [])];
  }

  /** False when nothing was kept under this key. */
  remove(key: number): boolean {
    const owner = this.#byKey.get(key);
    if (owner === undefined) return false;
    this.#byKey.delete(key);
    const keys = this.#byFrontend.get(owner.frontendId);
    keys?.delete(owner.streamId);
    if (keys?.size === 0) this.#byFrontend.delete(owner.frontendId);
    return true;
  }
}
