import type { Bucket } from '@busbar/bus';
import { decodeInstance, type Instance, instanceKey, type WorkerInfo } from '@busbar/protocol';
import { pairRefusal } from '@busbar/routing';
import { type LeaseProblemListener, LeaseWatch } from '@busbar/service';

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
const PREFIX = instanceKey(ROLE, '');

/** Follows the leases of prefill workers that make a pair with a decode worker. */
export class PeerWatch {
  readonly #own: WorkerInfo;
  readonly #listener: PeerListener;
  readonly #peers = new Map<string, Peer>();
  readonly #leases: LeaseWatch<Instance>;

  private constructor(own: WorkerInfo, listener: PeerListener, onProblem: LeaseProblemListener) {
    this.#own = own;
    this.#listener = listener;
    this.#leases = new LeaseWatch({
      under: [ROLE],
      decode: decodeInstance,
      isSameOwner: (before, now) => before.epoch === now.epoch,
      mayReturn: () => true,
      listener: {
        arrived: (key, instance) => this.#onLease(idOf(key), instance),
        changed: (key, instance) => this.#onLease(idOf(key), instance),
        left: (key) => this.#drop(idOf(key)),
      },
      onProblem,
    });
  }

  static async start(
    bucket: Bucket,
    own: WorkerInfo,
    listener: PeerListener,
    onProblem: LeaseProblemListener,
  ): Promise<PeerWatch> {
    const watch = new PeerWatch(own, listener, onProblem);
    await watch.#leases.open(bucket);
    return watch;
  }

  get(id: string): Peer | undefined {
    return this.#peers.get(id);
  }

  stop(): void {
    this.#leases.stop();
  }

  #onLease(id: string, { epoch, worker: info }: Instance): void {
    const isPair =
      info !== undefined &&
      info.model === this.#own.model &&
      pairRefusal(info, this.#own) === undefined;
    if (!isPair) {
      this.#drop(id);
      return;
    }
    const before = this.#peers.get(id);
    const isSame = before?.info.transfer?.endpoint === info.transfer?.endpoint;
    // What was measured of the old address says nothing of the new one.
    if (!isSame) this.#drop(id);
    this.#peers.set(id, { id, epoch, info });
    if (before === undefined || !isSame) this.#listener.onPeer({ id, epoch, info });
  }

  #drop(id: string): void {
    if (this.#peers.delete(id)) this.#listener.onPeerGone(id);
  }
}

function idOf(key: string): string {
  return key.slice(PREFIX.length);
}
