import type { BusErrorListener } from './guard.ts';
import { MemoryBucket } from './memory-bucket.ts';
import { MemoryBus } from './memory-bus.ts';
import type { Bus } from './port.ts';
import { matchesSubject } from './subject.ts';

export interface MemoryNetworkOptions {
  maxPayloadBytes?: number;
  /** Bytes that each bus keeps while it is disconnected. */
  bufferBytes?: number;
}

export interface MemoryBusOptions {
  onError?: BusErrorListener;
}

/** One message on its way. */
export interface Parcel {
  subject: string;
  data: Uint8Array;
  headers: Record<string, string> | undefined;
  reply: string | undefined;
}

export interface MemorySubscription {
  pattern: string;
  queue: string | undefined;
  bus: MemoryBus;
  deliver: (parcel: Parcel) => void;
}

/**
 * Subjects and buckets that several in-memory buses share, in place of a server. Messages are delivered in one total
 * order, each batch in its own turn of the event loop, so runs are repeatable; queue groups take turns.
 */
export class MemoryNetwork {
  readonly maxPayloadBytes: number;
  readonly bufferBytes: number;
  readonly #subscriptions = new Set<MemorySubscription>();
  readonly #buses = new Set<MemoryBus>();
  readonly #buckets = new Map<string, MemoryBucket>();
  readonly #turns = new Map<string, number>();
  #tasks: (() => void)[] = [];
  #isUp = true;
  #nextBus = 0;

  constructor(options: MemoryNetworkOptions = {}) {
    this.maxPayloadBytes = options.maxPayloadBytes ?? 1024 * 1024;
    this.bufferBytes = options.bufferBytes ?? 8 * 1024 * 1024;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** A bus of its own on this network. */
  connect(options: MemoryBusOptions = {}): Bus {
    const bus = new MemoryBus(this, `_INBOX.${this.#nextBus++}`, options.onError);
    this.#buses.add(bus);
    return bus;
  }

  /** Breaks the connection of every bus, as a server does that goes down. What is on its way is lost. */
  disconnect(): void {
    this.#isUp = false;
    this.#tasks = [];
    for (const bus of this.#buses) bus.onDisconnect();
  }

  /** Brings the connections back, with all buckets as they are now: keys have expired meanwhile. */
  reconnect(): void {
    this.#isUp = true;
    for (const bus of this.#buses) bus.onReconnect();
  }

  /** Runs `task` in the next turn of the event loop, after all tasks before it. */
  later(task: () => void): void {
    this.#tasks.push(task);
    if (this.#tasks.length === 1) setImmediate(() => this.#runTasks());
  }

  route(parcel: Parcel): void {
    this.later(() => this.#deliver(parcel));
  }

  add(subscription: MemorySubscription): void {
    this.#subscriptions.add(subscription);
  }

  remove(subscription: MemorySubscription): void {
    this.#subscriptions.delete(subscription);
  }

  leave(bus: MemoryBus): void {
    this.#buses.delete(bus);
    for (const subscription of this.#subscriptions) {
      if (subscription.bus === bus) this.#subscriptions.delete(subscription);
    }
  }

  bucket(name: string): MemoryBucket {
    let bucket = this.#buckets.get(name);
    if (bucket === undefined) {
      bucket = new MemoryBucket(this);
      this.#buckets.set(name, bucket);
    }
    return bucket;
  }

  #runTasks(): void {
    const tasks = this.#tasks;
    this.#tasks = [];
    for (const task of tasks) task();
  }

  #deliver(parcel: Parcel): void {
    const groups = new Map<string, MemorySubscription[]>();
    let receivers = 0;
    // Handlers may subscribe and unsubscribe: who gets this message is settled before the first of them runs.
    const matching = [...this.#subscriptions].filter(({ pattern }) => {
      return matchesSubject(pattern, parcel.subject);
    });
    for (const subscription of matching) {
      receivers++;
      const { queue } = subscription;
      if (queue === undefined) subscription.deliver(parcel);
      else groups.set(queue, [...(groups.get(queue) ?? []), subscription]);
    }
    for (const [queue, members] of groups) {
      const turn = this.#turns.get(queue) ?? 0;
      this.#turns.set(queue, turn + 1);
      members[turn % members.length]!.deliver(parcel);
    }
    if (receivers > 0 || parcel.reply === undefined) return;
    for (const bus of this.#buses) bus.onNoResponders(parcel.reply);
  }
}

/** A bus alone on a network of its own. */
export function createMemoryBus(options: MemoryNetworkOptions & MemoryBusOptions = {}): Bus {
  return new MemoryNetwork(options).connect(options);
}
