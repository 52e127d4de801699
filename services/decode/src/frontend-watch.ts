import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, ProtocolError } from '@busbar/protocol';

const PREFIX = 'frontend.';
/** A frontend that loses its lease for a moment, as when NATS restarts, keeps its requests. */
const GRACE_MS = 1_500;

/**
 * Tells which frontends left for good, or came back under the same name as another process: nobody reads their
 * streams any more.
 */
export class FrontendWatch {
  readonly #epochs = new Map<string, number>();
  readonly #leaving = new Map<string, NodeJS.Timeout>();
  readonly #onGone: (frontendId: string) => void;
  #subscription: Subscription | undefined;

  private constructor(onGone: (frontendId: string) => void) {
    this.#onGone = onGone;
  }

  static async start(bucket: Bucket, onGone: (frontendId: string) => void): Promise<FrontendWatch> {
    const watch = new FrontendWatch(onGone);
    watch.#subscription = await bucket.watch((change) => watch.#onChange(change));
    return watch;
  }

  stop(): void {
    this.#subscription?.unsubscribe();
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    this.#leaving.clear();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'snapshot') {
      for (const id of this.#epochs.keys()) if (!change.keys.has(PREFIX + id)) this.#leave(id);
      return;
    }
    if (!change.key.startsWith(PREFIX)) return;
    const id = change.key.slice(PREFIX.length);
    if (change.kind === 'gone') {
      if (this.#epochs.has(id)) this.#leave(id);
      return;
    }
    const epoch = readEpoch(change.value);
    if (epoch === undefined) return;
    clearTimeout(this.#leaving.get(id));
    this.#leaving.delete(id);
    const before = this.#epochs.get(id);
    this.#epochs.set(id, epoch);
    if (before !== undefined && before !== epoch) this.#onGone(id);
  }

  #leave(id: string): void {
    if (this.#leaving.has(id)) return;
    const timer = setTimeout(() => {
      this.#leaving.delete(id);
      this.#epochs.delete(id);
      this.#onGone(id);
    }, GRACE_MS);
    this.#leaving.set(id, timer);
  }
}

function readEpoch(value: Uint8Array): number | undefined {
  try {
    return decodeInstance(value).epoch;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
