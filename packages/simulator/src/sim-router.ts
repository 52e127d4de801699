import type { KvBatch, LifeEvent, LinkRecord, RouteReply, RouteRequest } from '@busbar/protocol';
import type { RouterCore, RouterEffect, SplitRecord } from '@busbar/routing';
import type { EventHeap } from './event-heap.ts';
import type { SimWorker } from './sim-worker.ts';

export interface LifeMessage {
  event: LifeEvent;
  hashes: Uint32Array;
}

/**
 * A router that asks to be woken now is woken so much later. What is due by the sum of two times may not be due by their difference, a
 * rounding apart, and this clock stands still until somebody waits.
 */
const SOON_MS = 1;

export type TransferEffect = Extract<RouterEffect, { kind: 'transferred' }>;

export interface RouterPorts {
  heap: EventHeap;
  hopMs: number;
  worker(id: string): SimWorker | undefined;
  reply(key: number, reply: RouteReply): void;
  /** A router changed its mind about what it knows of a worker's cache. */
  truthChanged(workerId: string, change: string): void;
  /** A router compared a split with a whole request. */
  decided(record: SplitRecord): void;
  /** The KV of a split request has arrived, as the router that placed it heard of it. */
  transferred(transfer: TransferEffect): void;
}

/** The shell of a router core: carries events in and effects out over the virtual bus, and decides nothing. */
export class SimRouter {
  readonly core: RouterCore;
  readonly #ports: RouterPorts;
  #wakeAtMs = Number.POSITIVE_INFINITY;

  constructor(core: RouterCore, ports: RouterPorts) {
    this.core = core;
    this.#ports = ports;
  }

  join(worker: SimWorker): void {
    this.#carryOut(this.core.onWorkerJoined(worker.id, worker.epoch, worker.info, this.#nowMs));
  }

  leave(workerId: string): void {
    this.#carryOut(this.core.onWorkerLeft(workerId, this.#nowMs));
  }

  load(worker: SimWorker, load: ReturnType<SimWorker['load']>): void {
    this.#carryOut(this.core.onLoad(worker.id, load, this.#nowMs));
  }

  kv(workerId: string, batch: KvBatch): void {
    this.#carryOut(this.core.onKv(workerId, batch, this.#nowMs));
  }

  life(frontendId: string, messages: readonly LifeMessage[]): void {
    for (const { event, hashes } of messages) {
      this.#carryOut(this.core.onLife(frontendId, event, hashes, this.#nowMs));
    }
  }

  link(record: LinkRecord): void {
    this.#carryOut(this.core.onLink(record, this.#nowMs));
  }

  linkGone(prefillWorkerId: string, decodeWorkerId: string): void {
    this.#carryOut(this.core.onLinkGone(prefillWorkerId, decodeWorkerId));
  }

  request(key: number, request: RouteRequest, hashes: Uint32Array): void {
    this.#carryOut(this.core.onRequest({ key, request, hashes }, this.#nowMs));
  }

  get #nowMs(): number {
    return this.#ports.heap.nowMs;
  }

  #carryOut(effects: RouterEffect[]): void {
    const { heap, hopMs } = this.#ports;
    for (const effect of effects) {
      if (effect.kind === 'reply') {
        if (effect.record?.split !== undefined) this.#ports.decided(effect.record.split);
        heap.after(hopMs, () => this.#ports.reply(effect.key, effect.reply));
      } else if (effect.kind === 'sync') {
        heap.after(hopMs, () => this.#sync(effect.workerId));
      } else if (effect.kind === 'wake') {
        this.#wake(effect.atMs);
      } else if (effect.kind === 'transferred') {
        this.#ports.transferred(effect);
      } else if (effect.kind === 'truth') {
        const { from, to, reason } = effect;
        this.#ports.truthChanged(effect.workerId, `${from} to ${to}: ${reason}`);
      }
    }
  }

  /** Runs at the worker: what it holds now reaches the router one hop later. */
  #sync(workerId: string): void {
    const worker = this.#ports.worker(workerId);
    const snapshot = worker?.isAlive ? worker.snapshot() : undefined;
    this.#ports.heap.after(this.#ports.hopMs, () => {
      if (snapshot === undefined) {
        this.#carryOut(this.core.onKvSyncFailed(workerId, this.#nowMs));
        return;
      }
      const { epoch, sequence, hashes } = snapshot;
      const parts = [{ dpRank: 0, tier: 'device' as const, hashes }];
      this.#carryOut(this.core.onKvSnapshot(workerId, { epoch, sequence, parts }, this.#nowMs));
    });
  }

  #wake(askedMs: number): void {
    const atMs = askedMs > this.#nowMs ? askedMs : this.#nowMs + SOON_MS;
    if (atMs >= this.#wakeAtMs) return;
    this.#wakeAtMs = atMs;
    this.#ports.heap.at(atMs, () => {
      if (this.#wakeAtMs !== atMs) return;
      this.#wakeAtMs = Number.POSITIVE_INFINITY;
      this.#carryOut(this.core.onTick(this.#nowMs));
    });
  }
}
