import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, type Instance, ProtocolError } from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';

export interface InstanceListener {
  /** A worker's lease is gone. */
  workerGone(workerId: string): void;
  /** A worker's name is held by another process than before. */
  workerRestarted(workerId: string): void;
}

/** Who is there: the leases of workers and routers as the bucket tells them. */
export class Instances {
  readonly #instances = new Map<string, Instance>();
  /** Routers that hold a lease, ready or about to be. */
  routers = 0;
  readonly #listener: InstanceListener;
  readonly #log: Logger;
  #subscription: Subscription | undefined;

  constructor(listener: InstanceListener, log: Logger) {
    this.#listener = listener;
    this.#log = log;
  }

  async watch(bucket: Bucket): Promise<void> {
    this.#subscription = await bucket.watch((change) => this.#onChange(change));
  }

  stop(): void {
    this.#subscription?.unsubscribe();
  }

  /** Workers of a model that take requests. */
  readyWorkers(model: string): number {
    let count = 0;
    for (const instance of this.#instances.values()) {
      if (instance.state === 'ready' && instance.worker?.model === model) count++;
    }
    return count;
  }

  readyRouters(): number {
    let count = 0;
    for (const instance of this.#instances.values()) {
      if (instance.role === 'router' && instance.state === 'ready') count++;
    }
    return count;
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'put') this.#put(change.key, change.value);
    else if (change.kind === 'gone') this.#remove(change.key);
    else {
      for (const key of this.#instances.keys()) if (!change.keys.has(key)) this.#remove(key);
    }
  }

  #put(key: string, value: Uint8Array): void {
    let instance: Instance;
    try {
      instance = decodeInstance(value);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#log.warn({ key, reason: error.message }, 'a lease cannot be read');
      this.#remove(key);
      return;
    }
    const before = this.#instances.get(key);
    this.#instances.set(key, instance);
    if (before === undefined && instance.role === 'router') this.routers++;
    if (instance.worker !== undefined && before !== undefined && before.epoch !== instance.epoch) {
      this.#listener.workerRestarted(instance.id);
    }
  }

  #remove(key: string): void {
    const instance = this.#instances.get(key);
    if (instance === undefined) return;
    this.#instances.delete(key);
    if (instance.role === 'router') this.routers--;
    if (instance.worker !== undefined) this.#listener.workerGone(instance.id);
  }
}
