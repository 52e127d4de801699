import type { LinkRecord } from '@busbar/protocol';
import type { EventHeap } from '../event-heap.ts';
import type { SimWorker, WorkerTransfer } from '../sim-worker.ts';
import { SimLinks } from './sim-links.ts';
import { type NetworkOptions, SimNetwork } from './sim-network.ts';

export interface FabricOptions extends NetworkOptions {
  /** What one token occupies in the cache, over all layers. */
  kvBytesPerToken: number;
}

export interface FabricPorts {
  worker(id: string): SimWorker | undefined;
  /** A decode worker published what it measured. */
  record(record: LinkRecord): void;
  /** The record of a link was taken back. */
  gone(prefillWorkerId: string, decodeWorkerId: string): void;
}

/** A new link is probed so soon after both of its workers are there. */
const PROBE_MS = 250;

/** Everything that KV moves over: the network, and what each decode worker measures of it. */
export class Fabric {
  readonly network: SimNetwork;
  readonly #heap: EventHeap;
  readonly #ports: FabricPorts;
  readonly #kvBytesPerToken: number;
  readonly #links = new Map<string, SimLinks>();
  readonly #present = new Map<string, SimWorker>();

  constructor(options: FabricOptions, heap: EventHeap, ports: FabricPorts) {
    this.network = new SimNetwork(heap, options);
    this.#heap = heap;
    this.#ports = ports;
    this.#kvBytesPerToken = options.kvBytesPerToken;
  }

  /** The part of a new worker in it. */
  transferOf(workerId: string): WorkerTransfer {
    const links = new SimLinks(workerId, this.#heap, (record) => this.#ports.record(record));
    this.#links.set(workerId, links);
    return {
      network: this.network,
      links,
      kvBytesPerToken: this.#kvBytesPerToken,
      peer: (id) => this.#ports.worker(id),
    };
  }

  onJoined(worker: SimWorker): void {
    for (const other of this.#present.values()) {
      if (other.info.role === worker.info.role) continue;
      const [prefill, decode] = worker.info.role === 'prefill' ? [worker, other] : [other, worker];
      this.#heap.after(PROBE_MS, () => this.#probe(prefill, decode));
    }
    this.#present.set(worker.id, worker);
  }

  /** The worker's lease is gone: what was measured of its links is forgotten. */
  onLeft(workerId: string): void {
    const worker = this.#present.get(workerId);
    this.#present.delete(workerId);
    for (const other of this.#present.values()) {
      if (worker === undefined || other.info.role === worker.info.role) continue;
      const isPrefill = worker.info.role === 'prefill';
      if (isPrefill) this.#links.get(other.id)?.forget(workerId);
      this.#ports.gone(isPrefill ? workerId : other.id, isPrefill ? other.id : workerId);
    }
  }

  /** Finds what a transfer would get that is alone; takes no time and nothing from others. */
  #probe(prefill: SimWorker, decode: SimWorker): void {
    if (!prefill.isAlive || !decode.isAlive) return;
    const { network } = this;
    const rate = network.idleBytesPerMs(prefill.host, decode.host);
    this.#links.get(decode.id)?.probed(prefill.id, rate, network.latencyMs);
  }
}
