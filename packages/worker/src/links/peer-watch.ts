import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, decodeOrSkip, type Instance, type WorkerInfo } from '@busbar/protocol';
import { pairRefusal } from '@busbar/routing';
import { LeaseGrace } from '@busbar/service';

/** A prefill worker whose KV this decode worker can use. */
export interface Peer {
  id: string;
  epoch: number;
  info: WorkerInfo;
}

export interface PeerListener {
  /** New, or another process or address under a known name. */
  onPeer(peer: Peer): void;
  onPeerGone(id: string): void;
}

const ROLE = 'prefill';
const PREFIX = `${ROLE}.`;

/** Follows the leases of prefill workers that make a pair with a decode worker. */
export class PeerWatch {
  readonly #own: WorkerInfo;
  readonly #listener: PeerListener;
  readonly #peers = new Map<string, Peer>();
  readonly #grace = new LeaseGrace((id) => this.#drop(id));
  #subscription: Subscription | undefined;

  private constructor(own: WorkerInfo, listener: PeerListener) {
    this.#own = own;
    this.#listener = listener;
  }

  static async start(bucket: Bucket, own: WorkerInfo, listener: PeerListener): Promise<PeerWatch> {
    const watch = new PeerWatch(own, listener);
    watch.#subscription = await bucket.watch((change) => watch.#onChange(change), {
      under: [ROLE],
    });
    return watch;
  }

  get(id: string): Peer | undefined {
    return this.#peers.get(id);
  }

  peers(): Peer[] {
    return [...this.#peers.values()];
  }

  stop(): void {
    this.#subscription?.unsubscribe();
    this.#grace.stop();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'snapshot') {
      for (const id of this.#peers.keys())
        if (!change.keys.has(PREFIX + id)) this.#grace.expired(id);
      return;
    }
    const id = change.key.slice(PREFIX.length);
    if (change.kind === 'put') this.#onLease(id, decodeOrSkip(decodeInstance, change.value));
    else if (this.#peers.has(id)) this.#grace.expired(id);
  }

  #onLease(id: string, instance: Instance | undefined): void {
    this.#grace.held(id);
    const info = instance?.worker;
    const isPair =
      info !== undefined &&
      info.model === this.#own.model &&
      pairRefusal(info, this.#own) === undefined;
    if (instance === undefined || !isPair) {
      if (this.#peers.has(id)) this.#drop(id);
      return;
    }
    const before = this.#peers.get(id);
    const { epoch } = instance;
    this.#peers.set(id, { id, epoch, info });
    const isSame =
      before?.epoch === epoch && before.info.transfer?.endpoint === info.transfer?.endpoint;
    if (isSame) return;
    // What was measured of the old process says nothing of the new one.
    if (before !== undefined) this.#listener.onPeerGone(id);
    this.#listener.onPeer({ id, epoch, info });
  }

  #drop(id: string): void {
    if (this.#peers.delete(id)) this.#listener.onPeerGone(id);
  }
}
