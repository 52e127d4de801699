import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, type Instance, ProtocolError, type WorkerInfo } from '@busbar/protocol';

/** What a router needs to know of other processes. */
export interface InstanceListener {
  onWorkerJoined(workerId: string, epoch: number, info: WorkerInfo): void;
  /** `wasDraining` tells a worker that left in good order from one that died. */
  onWorkerLeft(workerId: string, wasDraining: boolean): void;
  onFrontendLeft(frontendId: string): void;
}

/**
 * How long a lease may be away before its owner counts as gone. When NATS restarts, leases expire although their owners live, and
 * come back a moment later; the index of a worker is worth the wait, and a silent worker is not chosen meanwhile.
 */
const GRACE_MS = 1_500;

/** Follows bucket `instances` and tells of workers that are ready and of processes that left. */
export class InstanceWatch {
  readonly #listener: InstanceListener;
  readonly #known = new Map<string, Instance>();
  readonly #leaving = new Map<string, NodeJS.Timeout>();
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
    watch.#subscription = await bucket.watch((change) => watch.#onChange(change));
    await first;
    return watch;
  }

  stop(): void {
    this.#subscription?.unsubscribe();
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    this.#leaving.clear();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'snapshot') {
      for (const key of this.#known.keys()) if (!change.keys.has(key)) this.#expire(key);
      this.#onFirst?.();
    } else if (change.kind === 'gone') {
      this.#expire(change.key);
    } else {
      const instance = read(change.value);
      if (instance !== undefined) this.#update(change.key, instance);
    }
  }

  #update(key: string, instance: Instance): void {
    clearTimeout(this.#leaving.get(key));
    this.#leaving.delete(key);
    const before = this.#known.get(key);
    if (before !== undefined && before.epoch !== instance.epoch) this.#leave(key, before);
    this.#known.set(key, instance);
    if (instance.role !== 'decode' || instance.state !== 'ready' || this.#joined.has(key)) return;
    if (instance.worker === undefined) return;
    this.#joined.add(key);
    this.#listener.onWorkerJoined(instance.id, instance.epoch, instance.worker);
  }

  #expire(key: string): void {
    const instance = this.#known.get(key);
    if (instance === undefined || this.#leaving.has(key)) return;
    if (instance.state === 'draining') {
      this.#leave(key, instance);
      return;
    }
    const timer = setTimeout(() => {
      this.#leaving.delete(key);
      this.#leave(key, instance);
    }, GRACE_MS);
    this.#leaving.set(key, timer);
  }

  #leave(key: string, instance: Instance): void {
    this.#known.delete(key);
    if (instance.role === 'frontend') this.#listener.onFrontendLeft(instance.id);
    if (!this.#joined.delete(key)) return;
    this.#listener.onWorkerLeft(instance.id, instance.state === 'draining');
  }
}

/** Entries of another version, or broken ones, count as absent. */
function read(value: Uint8Array): Instance | undefined {
  try {
    return decodeInstance(value);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
