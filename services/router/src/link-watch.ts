import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeLinkRecord, decodeOrSkip, type LinkRecord, linkKey } from '@busbar/protocol';

/** What a router needs to know of links. */
export interface LinkListener {
  onLink(record: LinkRecord): void;
  onLinkGone(prefillWorkerId: string, decodeWorkerId: string): void;
}

/** Follows bucket `links`, in which decode workers say what they measured of the ways into them. */
export class LinkWatch {
  readonly #listener: LinkListener;
  readonly #known = new Set<string>();
  #subscription: Subscription | undefined;

  private constructor(listener: LinkListener) {
    this.#listener = listener;
  }

  static async start(bucket: Bucket, listener: LinkListener): Promise<LinkWatch> {
    const watch = new LinkWatch(listener);
    watch.#subscription = await bucket.watch((change) => watch.#onChange(change));
    return watch;
  }

  stop(): void {
    this.#subscription?.unsubscribe();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'snapshot') {
      for (const key of this.#known) if (!change.keys.has(key)) this.#forget(key);
    } else if (change.kind === 'gone') this.#forget(change.key);
    else {
      const record = decodeOrSkip(decodeLinkRecord, change.value);
      if (record === undefined) return;
      // A worker speaks of its own links only: the key, which permissions can bind, must say the same.
      if (linkKey(record.prefillWorkerId, record.decodeWorkerId) !== change.key) return;
      this.#known.add(change.key);
      this.#listener.onLink(record);
    }
  }

  #forget(key: string): void {
    if (!this.#known.delete(key)) return;
    const [prefillWorkerId, decodeWorkerId] = key.split('.');
    if (prefillWorkerId === undefined || decodeWorkerId === undefined) return;
    this.#listener.onLinkGone(prefillWorkerId, decodeWorkerId);
  }
}
