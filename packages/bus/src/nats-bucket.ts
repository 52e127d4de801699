import {
  JetStreamApiError,
  type JetStreamClient,
  jetstream,
  StorageType,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { NoRespondersError, RequestError } from '@nats-io/nats-core';
import { BusError, tooLarge } from './errors.ts';
import { KeptLease, type LeaseTarget, type LeaseTimes } from './kept-lease.ts';
import type { NatsBus } from './nats-bus.ts';
import { NatsWatch } from './nats-watch.ts';
import type { Bucket, BucketChange, BucketEntry, KeyFilter, Lease, Subscription } from './port.ts';

/** Bound of one call to JetStream. */
const CALL_TIMEOUT_MS = 5_000;
/** How long the note that a key is gone stays, for watches; those that were away longer compare with a snapshot. */
const MARKER_MS = 60_000;

/** True for what JetStream says when the stream of a bucket does not exist (any more). */
function isMissing(error: unknown): boolean {
  if (error instanceof NoRespondersError) return true;
  if (error instanceof RequestError && error.isNoResponders()) return true;
  if (error instanceof JetStreamApiError) return error.message === 'stream not found';
  return error instanceof Error && error.cause !== undefined && isMissing(error.cause);
}

/** A bucket kept in a file-backed JetStream stream: it survives a restart of the server. */
export class NatsBucket implements Bucket {
  readonly name: string;
  readonly bus: NatsBus;
  readonly client: JetStreamClient;
  readonly #replicas: number;
  readonly #leases = new Set<KeptLease>();
  readonly #watches = new Set<NatsWatch>();
  #kv: KV;

  private constructor(
    bus: NatsBus,
    name: string,
    replicas: number,
    client: JetStreamClient,
    kv: KV,
  ) {
    this.bus = bus;
    this.name = name;
    this.client = client;
    this.#replicas = replicas;
    this.#kv = kv;
    bus.onStatus((change) => {
      if (change !== 'reconnected') return;
      for (const lease of this.#leases) lease.renew();
      for (const watch of this.#watches) watch.reopen();
    });
  }

  static async open(bus: NatsBus, name: string, replicas: number): Promise<NatsBucket> {
    const client = jetstream(bus.connection, { timeout: CALL_TIMEOUT_MS });
    const kv = await bus.whileConnected(`bucket ${name}`, () =>
      createStream(client, name, replicas),
    );
    return new NatsBucket(bus, name, replicas, client, kv);
  }

  get streamName(): string {
    return `KV_${this.name}`;
  }

  subjectOf(key: string): string {
    return `$KV.${this.name}.${key}`;
  }

  async get(key: string): Promise<BucketEntry | undefined> {
    const entry = await this.call('get', () => this.#kv.get(key));
    if (entry === null || entry.operation !== 'PUT') return undefined;
    return { key, value: entry.value, revision: entry.revision };
  }

  async put(key: string, value: Uint8Array): Promise<number> {
    this.#checkSize(key, value);
    return this.call('put', () => this.#kv.put(key, value));
  }

  async delete(key: string): Promise<void> {
    // A purge with a time to live: a plain deletion would leave its marker in the stream for ever.
    await this.call('delete', () => this.#kv.purge(key, { ttl: `${MARKER_MS / 1_000}s` }));
  }

  async entries(filter?: KeyFilter): Promise<BucketEntry[]> {
    const { promise, resolve, reject } = Promise.withResolvers<BucketEntry[]>();
    const entries = new Map<string, BucketEntry>();
    const watch = new NatsWatch(
      this,
      (change) => {
        if (change.kind === 'put') {
          entries.set(change.key, {
            key: change.key,
            value: change.value,
            revision: change.revision,
          });
        } else if (change.kind === 'gone') entries.delete(change.key);
        else resolve([...entries.values()]);
      },
      filter,
    );
    const late = (): void =>
      reject(new BusError('BUS_TIMEOUT', `entries of ${this.name} took too long`));
    const timer = setTimeout(late, CALL_TIMEOUT_MS);
    try {
      await watch.open();
      return await this.bus.whileConnected(`entries of ${this.name}`, () => promise);
    } finally {
      clearTimeout(timer);
      watch.unsubscribe();
    }
  }

  async watch(handler: (change: BucketChange) => void, filter?: KeyFilter): Promise<Subscription> {
    const watch = new NatsWatch(this, handler, filter);
    await watch.open();
    this.#watches.add(watch);
    return {
      unsubscribe: () => {
        this.#watches.delete(watch);
        watch.unsubscribe();
      },
    };
  }

  async lease(key: string, value: Uint8Array, options: LeaseTimes): Promise<Lease> {
    this.#checkSize(key, value);
    const target: LeaseTarget = {
      write: (next, ttlMs) => this.#putFor(key, next, ttlMs),
      remove: () => this.delete(key),
      isConnected: () => this.bus.status === 'connected',
      report: (error) => this.bus.guard.report(error, `lease ${key}`),
      ended: () => void this.#leases.delete(lease),
    };
    const lease = await KeptLease.create(target, value, options);
    this.#leases.add(lease);
    return lease;
  }

  /** Ends watches and renewals; keys under lease expire by themselves. */
  stop(): void {
    for (const lease of this.#leases) lease.abandon();
    for (const watch of this.#watches) watch.unsubscribe();
  }

  /**
   * Runs one call to JetStream, bounded by the connection. When the stream is missing (a server that came back with an
   * empty disk), it is made anew and the call is tried once more.
   */
  async call<T>(what: string, run: () => Promise<T>): Promise<T> {
    const name = `${what} in bucket ${this.name}`;
    try {
      return await this.bus.whileConnected(name, run);
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#kv = await this.bus.whileConnected(name, () => {
        return createStream(this.client, this.name, this.#replicas);
      });
      return this.bus.whileConnected(name, run);
    }
  }

  /** `kv.put` takes no time to live, so the message is published as `kv.put` does it, with the header. */
  async #putFor(key: string, value: Uint8Array, ttlMs: number): Promise<void> {
    this.#checkSize(key, value);
    // Servers count whole seconds, at least one.
    const ttl = `${Math.ceil(ttlMs / 1_000)}s`;
    await this.call('lease', () => this.client.publish(this.subjectOf(key), value, { ttl }));
  }

  #checkSize(key: string, value: Uint8Array): void {
    if (value.length > this.bus.maxPayloadBytes) {
      throw tooLarge(key, value.length, this.bus.maxPayloadBytes);
    }
  }
}

async function createStream(client: JetStreamClient, name: string, replicas: number): Promise<KV> {
  return new Kvm(client).create(name, {
    history: 1,
    storage: StorageType.File,
    replicas,
    markerTTL: MARKER_MS,
  });
}
