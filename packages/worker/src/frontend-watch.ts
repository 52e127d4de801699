import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, decodeOrSkip } from '@busbar/protocol';
import { LeaseGrace } from '@busbar/service';

const ROLE = 'frontend';
const PREFIX = `${ROLE}.`;

/**
 * Tells which frontends left for good, or came back under the same name as another process: nobody reads their
 * streams any more.
 */
export class FrontendWatch {
  readonly #epochs = new Map<string, number>();
  /** A frontend that loses its lease for a moment keeps its requests. */
  readonly #grace = new LeaseGrace((id) => {
    this.#epochs.delete(id);
    this.#onGone(id);
  });
  readonly #onGone: (frontendId: string) => void;
  #subscription: Subscription | undefined;

  private constructor(onGone: (frontendId: string) => void) {
    this.#onGone = onGone;
  }

  static async start(bucket: Bucket, onGone: (frontendId: string) => void): Promise<FrontendWatch> {
    const watch = new FrontendWatch(onGone);
    watch.#subscription = await bucket.watch((change) => watch.#onChange(change), {
      under: [ROLE],
    });
    return watch;
  }

  stop(): void {
    this.#subscription?.unsubscribe();
    this.#grace.stop();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'snapshot') {
      for (const id of this.#epochs.keys())
        if (!change.keys.has(PREFIX + id)) this.#grace.expired(id);
      return;
    }
    const id = change.key.slice(PREFIX.length);
    if (change.kind === 'gone') {
      if (this.#epochs.has(id)) this.#grace.expired(id);
      return;
    }
    const epoch = decodeOrSkip(decodeInstance, change.value)?.epoch;
    if (epoch === undefined) return;
    this.#grace.held(id);
    const before = this.#epochs.get(id);
    this.#epochs.set(id, epoch);
    if (before !== undefined && before !== epoch) this.#onGone(id);
  }
}
