import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, decodeOrSkip, type Instance, type WorkerInfo } from '@busbar/protocol';
import { LeaseGrace } from '@busbar/service';

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
  readonly #known = new Map<string, Instance>();
  /** The index of a worker is worth the wait, and a silent worker is not chosen meanwhile. */
  readonly #grace = new LeaseGrace((key) => this.#leave(key));
  readonly #joined = new Set<string>();
  #subscription: Subscription | undefined;
  #onFirst: (() => void) | undefined;

  private constructor(listener: InstanceListener) {
    this.#listener = listener;
  }

  /** Resolves when all instances that are registered now have been told. */
  static async start(bucket: Bucket, listener: InstanceListener): Promise<InstanceWatch> {
    const watch = new InstanceWatch(listener);
    const first = new Promise<void>((resolve) => {
      watch.#onFirst = resolve;
    });
    watch.#subscription = await bucket.watch((change) => watch.#onChange(change), { under: ROLES });
    await first;
    return watch;
  }

  stop(): void {
    this.#subscription?.unsubscribe();
    this.#grace.stop();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'snapshot') {
      for (const key of this.#known.keys()) if (!change.keys.has(key)) this.#expire(key);
      this.#onFirst?.();
    } else if (change.kind === 'gone') {
      this.#expire(change.key);
    } else {
      const instance = decodeOrSkip(decodeInstance, change.value);
      if (instance !== undefined) this.#update(change.key, instance);
    }
  }

  #update(key: string, instance: Instance): void {
    this.#grace.held(key);
    const before = this.#known.get(key);
    if (before !== undefined && before.epoch !== instance.epoch) this.#leave(key);
    this.#known.set(key, instance);
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

  #expire(key: string): void {
    const instance = this.#known.get(key);
    if (instance?.state === 'draining') this.#leave(key);
    else if (instance !== undefined) this.#grace.expired(key);
  }

  #leave(key: string): void {
    const instance = this.#known.get(key);
    if (instance === undefined) return;
    this.#known.delete(key);
    if (instance.role === 'frontend') this.#listener.onFrontendLeft(instance.id);
    if (!this.#joined.delete(key)) return;
    this.#listener.onWorkerLeft(instance.id, instance.state === 'draining');
  }
}
