import type { Clock } from '@busbar/base';
import type { Bucket } from '@busbar/bus';
import { decodeInstance, type Instance, isProcessId, type WorkerInfo } from '@busbar/protocol';
import { type LeaseProblemListener, LeaseWatch, type LeaveReason } from '@busbar/service';

export interface InstanceListener {
  /** A worker's lease is gone. */
  workerGone(workerId: string): void;
  /** A worker's name is held by another process than before. */
  workerRestarted(workerId: string): void;
}

/** Frontends do not follow each other. */
const ROLES = ['decode', 'prefill', 'router'];

/** Who is there: the leases of workers and routers as the bucket tells them. Nobody is sent requests whose lease is away. */
export class Instances {
  /** Routers that hold a lease, ready or about to be. */
  routers = 0;
  /** Ids of the routers that take requests. */
  readyRouters: readonly string[] = [];
  readonly #leases: LeaseWatch<Instance>;
  /** When the last worker of a model left, by model; only of those that had drained. */
  readonly #retiredAtMs = new Map<string, number>();
  readonly #clock: Clock;
  readonly #listener: InstanceListener;

  constructor(listener: InstanceListener, clock: Clock, onProblem: LeaseProblemListener) {
    this.#clock = clock;
    this.#listener = listener;
    this.#leases = new LeaseWatch({
      under: ROLES,
      decode: decodeInstance,
      isSameOwner: (before, now) => before.epoch === now.epoch,
      listener: {
        arrived: (_, instance) => this.#onArrived(instance),
        changed: (_, instance) => this.#onTold(instance),
        left: (_, last, reason) => this.#onLeft(last, reason),
      },
      onProblem,
    });
  }

  watch(bucket: Bucket): Promise<void> {
    return this.#leases.open(bucket);
  }

  stop(): void {
    this.#leases.stop();
  }

  /** Workers that take whole requests of a model, and of this adapter of it. Prefill workers answer nobody. */
  readyWorkers(model: string, lora?: string): number {
    let count = 0;
    for (const instance of this.#leases.values()) {
      if (instance.state !== 'ready' || !servesModel(instance, model)) continue;
      if (lora === undefined || instance.worker?.loras?.includes(lora) === true) count++;
    }
    return count;
  }

  /** Adapters that ready workers of a model have, by name. */
  adapters(model: string): string[] {
    const names = new Set<string>();
    for (const instance of this.#leases.values()) {
      if (instance.state !== 'ready' || !servesModel(instance, model)) continue;
      for (const name of instance.worker?.loras ?? []) names.add(name);
    }
    return [...names].toSorted();
  }

  /** Models of which a worker has this adapter, those with a ready one first, then by name. */
  modelsOfAdapter(lora: string): string[] {
    const models = new Map<string, boolean>();
    for (const instance of this.#leases.values()) {
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

  #onArrived(instance: Instance): void {
    if (instance.role === 'router') this.routers++;
    this.#onTold(instance);
  }

  #onTold(instance: Instance): void {
    if (instance.role === 'router') this.#listRouters();
    if (isDecode(instance)) this.#retiredAtMs.delete(instance.worker.model);
  }

  #onLeft(last: Instance, reason: LeaveReason): void {
    if (last.role === 'router') {
      this.routers--;
      this.#listRouters();
    }
    if (reason === 'replaced') {
      if (last.worker !== undefined) this.#listener.workerRestarted(last.id);
      return;
    }
    if (last.worker !== undefined) this.#listener.workerGone(last.id);
    if (isDecode(last) && last.state === 'draining') this.#retire(last.worker.model);
  }

  #listRouters(): void {
    this.readyRouters = [...this.#leases.values()]
      .filter(({ role, state, id }) => role === 'router' && state === 'ready' && isProcessId(id))
      .map(({ id }) => id);
  }

  #retire(model: string): void {
    for (const instance of this.#leases.values()) if (servesModel(instance, model)) return;
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
