import { ChangeTeller } from './change-teller.ts';
import { tooLarge } from './errors.ts';
import { KeptLease, type LeaseTimes } from './kept-lease.ts';
import type { MemoryBus } from './memory-bus.ts';
import type { MemoryNetwork } from './memory-network.ts';
import type { Bucket, BucketChange, BucketEntry, KeyFilter, Lease, Subscription } from './port.ts';
import { checkKey } from './subject.ts';

interface Stored {
  entry: BucketEntry;
  expiry: NodeJS.Timeout | undefined;
}

/** The keys of one bucket, shared by all buses of a network. */
export class MemoryBucket {
  readonly #network: MemoryNetwork;
  readonly #stored = new Map<string, Stored>();
  readonly #watches = new Set<MemoryWatch>();
  #revision = 0;

  constructor(network: MemoryNetwork) {
    this.#network = network;
  }

  get(key: string): BucketEntry | undefined {
    return this.#stored.get(key)?.entry;
  }

  entries(filter?: KeyFilter): BucketEntry[] {
    return [...this.#stored.values()]
      .map(({ entry }) => entry)
      .filter(({ key }) => covers(filter, key));
  }

  put(key: string, value: Uint8Array, ttlMs: number | undefined): number {
    clearTimeout(this.#stored.get(key)?.expiry);
    const entry = { key, value: value.slice(), revision: ++this.#revision };
    const expiry =
      ttlMs === undefined ? undefined : setTimeout(() => this.delete(key), ttlMs).unref();
    this.#stored.set(key, { entry, expiry });
    this.#tell(key, (teller) => teller.put(key, entry.value, entry.revision));
    return entry.revision;
  }

  delete(key: string): void {
    const stored = this.#stored.get(key);
    if (stored === undefined) return;
    clearTimeout(stored.expiry);
    this.#stored.delete(key);
    const revision = ++this.#revision;
    this.#tell(key, (teller) => teller.gone(key, revision));
  }

  watch(watch: MemoryWatch): void {
    this.#watches.add(watch);
    this.retell(watch);
  }

  unwatch(watch: MemoryWatch): void {
    this.#watches.delete(watch);
  }

  /** Tells `watch` everything anew, as of now. */
  retell(watch: MemoryWatch): void {
    const entries = this.entries(watch.filter);
    this.#network.later(() => {
      watch.teller.begin();
      for (const { key, value, revision } of entries) watch.teller.put(key, value, revision);
      watch.teller.end();
    });
  }

  #tell(key: string, change: (teller: ChangeTeller) => void): void {
    if (!this.#network.isUp) return;
    for (const watch of this.#watches) {
      if (covers(watch.filter, key)) this.#network.later(() => change(watch.teller));
    }
  }
}

interface MemoryWatch {
  teller: ChangeTeller;
  filter: KeyFilter | undefined;
}

function covers(filter: KeyFilter | undefined, key: string): boolean {
  return filter?.under?.some((name) => key.startsWith(`${name}.`)) ?? true;
}

/** A bucket as one bus sees it. */
export class MemoryBucketView implements Bucket {
  readonly #bus: MemoryBus;
  readonly #bucket: MemoryBucket;
  readonly #name: string;
  readonly #watches = new Set<MemoryWatch>();
  readonly #leases = new Set<KeptLease>();

  constructor(bus: MemoryBus, bucket: MemoryBucket, name: string) {
    this.#bus = bus;
    this.#bucket = bucket;
    this.#name = name;
  }

  get(key: string): Promise<BucketEntry | undefined> {
    return this.#call(key, () => this.#bucket.get(key));
  }

  put(key: string, value: Uint8Array): Promise<number> {
    return this.#call(key, () => this.#put(key, value, undefined));
  }

  delete(key: string): Promise<void> {
    return this.#call(key, () => this.#bucket.delete(key));
  }

  entries(filter?: KeyFilter): Promise<BucketEntry[]> {
    return this.#call(undefined, () => this.#bucket.entries(filter));
  }

  watch(handler: (change: BucketChange) => void, filter?: KeyFilter): Promise<Subscription> {
    let isOpen = true;
    const watch: MemoryWatch = {
      filter,
      teller: new ChangeTeller((change) => {
        if (isOpen) this.#bus.guard.run(handler, change, `watch of ${this.#name}`);
      }),
    };
    return this.#call(undefined, () => {
      this.#watches.add(watch);
      this.#bucket.watch(watch);
      return {
        unsubscribe: () => {
          isOpen = false;
          this.#watches.delete(watch);
          this.#bucket.unwatch(watch);
        },
      };
    });
  }

  async lease(key: string, value: Uint8Array, options: LeaseTimes): Promise<Lease> {
    const lease = await KeptLease.create(
      {
        write: async (next, ttlMs) => {
          await this.#call(key, () => this.#put(key, next, ttlMs));
        },
        remove: () => this.delete(key),
        isConnected: () => this.#bus.status === 'connected',
        report: (error) => this.#bus.guard.report(error, `lease ${key}`),
        ended: () => void this.#leases.delete(lease),
      },
      value,
      options,
    );
    this.#leases.add(lease);
    return lease;
  }

  /** Opens watches anew and renews leases; answers how many watches there are. */
  onReconnect(): number {
    for (const lease of this.#leases) lease.renew();
    for (const watch of this.#watches) this.#bucket.retell(watch);
    return this.#watches.size;
  }

  stop(): void {
    for (const lease of this.#leases) lease.abandon();
    for (const watch of this.#watches) this.#bucket.unwatch(watch);
  }

  #put(key: string, value: Uint8Array, ttlMs: number | undefined): number {
    const limit = this.#bus.maxPayloadBytes;
    if (value.length > limit) throw tooLarge(key, value.length, limit);
    return this.#bucket.put(key, value, ttlMs);
  }

  async #call<T>(key: string | undefined, run: () => T): Promise<T> {
    const problem = this.#bus.whyNot(`bucket ${this.#name}`);
    if (problem) throw problem;
    if (key !== undefined) checkKey(key);
    return run();
  }
}
