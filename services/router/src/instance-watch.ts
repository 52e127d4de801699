import type { Bucket } from '@busbar/bus';
import { decodeInstance, type Instance, type WorkerInfo } from '@busbar/protocol';
import { type LeaseProblemListener, LeaseWatch } from '@busbar/service';

/** What a router needs to know of other processes. */
export interface InstanceListener {
  onWorkerJoined(workerId: string, epoch: number, info: WorkerInfo): void;
  /** A worker that joined says something else of itself: it has other adapters, say. */
  onWorkerChanged(workerId: string, epoch: number, info: WorkerInfo): void;
  /** `wasDraining` tells a worker that left in good order from one that died. */
  onWorkerLeft(workerId: string, wasDraining: boolean): void;
  onFrontendLeft(frontendId: string): void;
}

/** Routers do not follow each other. */
const ROLES = ['decode', 'prefill', 'frontend'];

/** Follows bucket `instances` and tells of workers that are ready and of processes that left. */
export class InstanceWatch {
  readonly #listener: InstanceListener;
  readonly #joined = new Set<string>();
  readonly #leases: LeaseWatch<Instance>;

  private constructor(listener: InstanceListener, onProblem: LeaseProblemListener) {
    this.#listener = listener;
    this.#leases = new LeaseWatch({
      under: ROLES,
      decode: decodeInstance,
      isSameOwner: (before, now) => before.epoch === now.epoch,
      // The index of a worker is worth the wait, and a silent worker is not chosen meanwhile.
      mayReturn: ({ state }) => state !== 'draining',
      listener: {
        arrived: (key, instance) => this.#update(key, instance, undefined),
        changed: (key, instance, before) => this.#update(key, instance, before),
        left: (key, last) => this.#leave(key, last),
      },
      onProblem,
    });
  }

  /** Resolves when all instances that are registered now have been told. */
  static async start(
    bucket: Bucket,
    listener: InstanceListener,
    onProblem: LeaseProblemListener,
  ): Promise<InstanceWatch> {
    const watch = new InstanceWatch(listener, onProblem);
    await watch.#leases.open(bucket);
    await watch.#leases.listed();
    return watch;
  }

  stop(): void {
    this.#leases.stop();
  }

  #update(key: string, instance: Instance, before: Instance | undefined): void {
    if (instance.state !== 'ready' || instance.worker === undefined) return;
    if (instance.role !== instance.worker.role) return;
    const { id, epoch, worker } = instance;
    if (!this.#joined.has(key)) {
      this.#joined.add(key);
      this.#listener.onWorkerJoined(id, epoch, worker);
    } else if (JSON.stringify(before?.worker) !== JSON.stringify(worker)) {
      this.#listener.onWorkerChanged(id, epoch, worker);
    }
  }

  #leave(key: string, last: Instance): void {
    if (last.role === 'frontend') this.#listener.onFrontendLeft(last.id);
    if (!this.#joined.delete(key)) return;
    this.#listener.onWorkerLeft(last.id, last.state === 'draining');
  }
}
