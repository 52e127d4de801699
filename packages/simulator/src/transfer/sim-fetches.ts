import { assert } from '@busbar/base';
import { limit } from '@busbar/protocol';
import type { EventHeap } from '../event-heap.ts';
import type { SimLinks } from './sim-links.ts';
import type { Flow, SimNetwork } from './sim-network.ts';
import type { SimStaged } from './sim-staged.ts';

const MAX_FETCHES = limit('kvFetches');

/** Where the KV of a prompt waits. */
export interface SimKvSource {
  prefillWorkerId: string;
  /** The prefill leg's key. */
  key: number;
  /** From now; a fetch that cannot begin before is not begun. */
  validForMs: number;
}

/** The other side of a transfer. */
export interface FetchPeer {
  readonly id: string;
  readonly host: string;
  readonly isAlive: boolean;
  readonly staged: SimStaged;
}

export interface FetchPorts {
  heap: EventHeap;
  network: SimNetwork;
  links: SimLinks;
  host: string;
  peer: (id: string) => FetchPeer | undefined;
  /** The fetch is over: `failure` says why it failed. Not called for one that was forgotten. */
  ended(key: number, failure: string | undefined): void;
}

interface Job {
  key: number;
  bytes: number;
  source: SimKvSource;
  untilMs: number;
}

interface Running extends Job {
  flow: Flow | undefined;
  peer: FetchPeer | undefined;
}

/** The fetches of a decode worker: a few at a time, in the order in which they came, each told to the account of its link. */
export class SimFetches {
  readonly #ports: FetchPorts;
  readonly #expected = new Map<number, { source: SimKvSource; untilMs: number }>();
  readonly #running = new Map<number, Running>();
  #waiting: Job[] = [];

  constructor(ports: FetchPorts) {
    this.#ports = ports;
  }

  /** A request was accepted that will fetch. */
  expect(key: number, source: SimKvSource): void {
    this.#expected.set(key, { source, untilMs: this.#ports.heap.nowMs + source.validForMs });
  }

  /** The engine has room for what it expects. */
  start(key: number, bytes: number): void {
    const expected = this.#expected.get(key);
    assert(expected !== undefined, 'a fetch was announced');
    this.#expected.delete(key);
    this.#waiting.push({ key, bytes, ...expected });
    this.#next();
  }

  /** The request that fetches is over. */
  forget(key: number): void {
    this.#expected.delete(key);
    this.#waiting = this.#waiting.filter((job) => job.key !== key);
    const job = this.#running.get(key);
    if (job !== undefined) this.#end(job, 'cancelled');
  }

  /** The process at the other end is gone, and with it every connection. */
  onPeerDied(id: string): void {
    for (const job of this.#running.values()) {
      if (job.peer?.id === id) this.#end(job, 'failed', `worker ${id} closed the connection`);
    }
  }

  /** Ends all as the death of this process does: nobody here hears of it. */
  stop(): void {
    this.#expected.clear();
    this.#waiting = [];
    for (const job of this.#running.values()) this.#end(job, 'cancelled');
  }

  #next(): void {
    while (this.#running.size < MAX_FETCHES) {
      const job = this.#waiting.shift();
      if (job === undefined) return;
      if (this.#ports.heap.nowMs < job.untilMs) this.#run(job);
      else this.#ports.ended(job.key, 'the time for which the KV was promised ran out');
    }
  }

  #run(job: Job): void {
    const { heap, network, links, host } = this.#ports;
    const { key, source, bytes } = job;
    const peer = this.#ports.peer(source.prefillWorkerId);
    const running: Running = { ...job, flow: undefined, peer };
    this.#running.set(key, running);
    links.began(key, source.prefillWorkerId);
    const isOpen =
      peer?.isAlive === true &&
      peer.staged.open(source.key, () => this.#end(running, 'failed', 'the KV was given up'));
    if (isOpen) {
      running.flow = network.start(peer.host, host, bytes, () => this.#end(running, 'ok'));
      return;
    }
    running.peer = undefined;
    heap.after(network.latencyMs, () => this.#end(running, 'failed', 'no such KV is staged there'));
  }

  #end(job: Running, outcome: 'ok' | 'failed' | 'cancelled', reason?: string): void {
    const { key, flow, peer, source } = job;
    if (this.#running.get(key) !== job) return;
    this.#running.delete(key);
    const bytes = flow === undefined ? 0 : this.#ports.network.cut(flow);
    this.#ports.links.ended(key, { outcome, bytes, ...(reason === undefined ? {} : { reason }) });
    if (peer?.isAlive === true) peer.staged.close(source.key, outcome === 'ok');
    if (outcome !== 'cancelled') this.#ports.ended(key, reason);
    this.#next();
  }
}
