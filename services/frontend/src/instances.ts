import type { Clock } from '@busbar/base';
import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeInstance, type Instance, ProtocolError, type WorkerInfo } from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';

export interface InstanceListener {
  /** A worker's lease is gone. */
  workerGone(workerId: string): void;
  /** A worker's name is held by another process than before. */
  workerRestarted(workerId: string): void;
}

/** Frontends do not follow each other. */
const ROLES = ['decode', 'prefill', 'router'];

/** Who is there: the leases of workers and routers as the bucket tells them. */
export class Instances {
  readonly #instances = new Map<string, Instance>();
  /** Routers that hold a lease, ready or about to be. */
  routers = 0;
  /** When the last worker of a model left, by model; only of those that had drained. */
  readonly #retiredAtMs = new Map<string, number>();
  readonly #clock: Clock;
  readonly #listener: InstanceListener;
  readonly #log: Logger;
  #subscription: Subscription | undefined;

  constructor(listener: InstanceListener, clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#listener = listener;
    this.#log = log;
  }

  async watch(bucket: Bucket): Promise<void> {
    this.#subscription = await bucket.watch((change) => this.#onChange(change), { under: ROLES });
  }

  stop(): void {
    this.#subscription?.unsubscribe();
  }

  /** Workers that take whole requests of a model, and of this adapter of it. Prefill workers answer nobody. */
  readyWorkers(model: string, lora?: string): number {
    let count = 0;
    for (const instance of this.#instances.values()) {
      if (instance.state !== 'ready' || !servesModel(instance, model)) continue;
      if (lora === undefined || instance.worker?.loras?.includes(lora) === true) count++;
    }
    return count;
  }

  /** Adapters that ready workers of a model have, by name. */
  adapters(model: string): string[] {
    const names = new Set<string>();
    for (const instance of this.#instances.values()) {
      if (instance.state !== 'ready' || !servesModel(instance, model)) continue;
      for (const name of instance.worker?.loras ?? []) names.add(name);
    }
    return [...names].toSorted();
  }

  /** Models of which a worker has this adapter, those with a ready one first, then by name. */
  modelsOfAdapter(lora: string): string[] {
    const models = new Map<string, boolean>();
    for (const instance of this.#instances.values()) {
      if (!isDecode(instance) || instance.worker.loras?.includes(lora) !== true) continue;
      const { model } = instance.worker;
      models.set(model, models.get(model) === true || instance.state === 'ready');
    }
    const rank = (isReady: boolean): number => (isReady ? 0 : 1);
    return [...models]
      .toSorted(([a, x], [b, y]) => rank(x) - rank(y) || (a < b ? -1 : 1))
      .map(([model]) => model);
  }

  /** Since when a model has no worker because the last one left in good order; undefined while it has one or lost it. */
  retiredMs(model: string): number | undefined {
    const atMs = this.#retiredAtMs.get(model);
    return atMs === undefined ? undefined : this.#clock.monotonicMs() - atMs;
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
    if (isDecode(instance)) this.#retiredAtMs.delete(instance.worker.model);
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
    if (isDecode(instance) && instance.state === 'draining') this.#retire(instance.worker.model);
  }

  #retire(model: string): void {
    for (const instance of this.#instances.values()) if (servesModel(instance, model)) return;
    this.#retiredAtMs.set(model, this.#clock.monotonicMs());
  }
}

/** A worker that answers requests, and has said what it is. */
function isDecode(instance: Instance): instance is Instance & { worker: WorkerInfo } {
  return instance.role === 'decode' && instance.worker !== undefined;
}

function servesModel(instance: Instance, model: string): boolean {
  return isDecode(instance) && instance.worker.model === model;
}
