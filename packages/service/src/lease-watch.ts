import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { ProtocolError } from '@busbar/protocol';
import { LeaseGrace } from './lease-grace.ts';

/** `expired`: or deleted, or unreadable now. `replaced`: another owner holds the key and is told as arrived right after. */
export type LeaveReason = 'expired' | 'replaced';

/** Hears of each key in order: `arrived`, any number of `changed`, `left`. May throw: the other keys are told nevertheless. */
export interface LeaseListener<T> {
  arrived(key: string, value: T): void;
  /** The same owner says something else, or all again: a watch that opens anew tells every entry. */
  changed(key: string, value: T, before: T): void;
  left(key: string, last: T, reason: LeaveReason): void;
}

/** Hears of each value that cannot be read (a ProtocolError) and of whatever a listener throws. */
export type LeaseProblemListener = (error: unknown, key: string) => void;

export interface LeaseWatchOptions<T> {
  /** Throws ProtocolError for what it cannot read. */
  decode: (value: Uint8Array, key: string) => T;
  listener: LeaseListener<T>;
  /** A warning of the process when absent. */
  onProblem?: LeaseProblemListener;
  /** First names of the keys that are watched; all keys when absent. */
  under?: readonly string[];
  /** Whether the process that held the key before holds it now; always when absent. */
  isSameOwner?: (before: T, now: T) => boolean;
  /** Whether an owner whose lease is gone may live: it is told as left only after `leaseGraceMs`. Never when absent. */
  mayReturn?: (last: T) => boolean;
}

/**
 * Follows the leases of a bucket through renewals, ends and outages. What a watch that opened anew does not list any more
 * has ended meanwhile; what it lists again has not. A value that cannot be read is as none.
 */
export class LeaseWatch<T> {
  readonly #options: LeaseWatchOptions<T>;
  readonly #known = new Map<string, T>();
  readonly #grace = new LeaseGrace((key) => this.#leave(key, 'expired'));
  readonly #listing = Promise.withResolvers<void>();
  #subscription: Subscription | undefined;

  constructor(options: LeaseWatchOptions<T>) {
    this.#options = options;
  }

  /** Resolves when the watch is open; what is in the bucket may be told before that, or after. */
  async open(bucket: Pick<Bucket, 'watch'>): Promise<void> {
    const { under } = this.#options;
    this.#subscription = await bucket.watch(
      (change) => this.#onChange(change),
      under === undefined ? {} : { under },
    );
  }

  /** Resolves when everything that was in the bucket at the start has been told. */
  listed(): Promise<void> {
    return this.#listing.promise;
  }

  /** Those that arrived and have not left. */
  values(): IterableIterator<T> {
    return this.#known.values();
  }

  /** Nothing is told any more. */
  stop(): void {
    this.#subscription?.unsubscribe();
    this.#grace.stop();
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'put') this.#onPut(change.key, change.value);
    else if (change.kind === 'gone') this.#expire(change.key);
    else {
      for (const key of this.#known.keys()) if (!change.keys.has(key)) this.#expire(key);
      this.#listing.resolve();
    }
  }

  #onPut(key: string, value: Uint8Array): void {
    const now = this.#read(key, value);
    if (now === undefined) {
      this.#expire(key);
      return;
    }
    this.#grace.held(key);
    const { listener, isSameOwner } = this.#options;
    const before = this.#known.get(key);
    if (before !== undefined && isSameOwner?.(before, now) !== false) {
      this.#known.set(key, now);
      this.#tell(key, () => listener.changed(key, now, before));
      return;
    }
    this.#leave(key, 'replaced');
    this.#known.set(key, now);
    this.#tell(key, () => listener.arrived(key, now));
  }

  #read(key: string, value: Uint8Array): T | undefined {
    try {
      return this.#options.decode(value, key);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#report(error, key);
      return undefined;
    }
  }

  #expire(key: string): void {
    const last = this.#known.get(key);
    if (last === undefined) return;
    if (this.#options.mayReturn?.(last) === true) this.#grace.expired(key);
    else this.#leave(key, 'expired');
  }

  #leave(key: string, reason: LeaveReason): void {
    const last = this.#known.get(key);
    if (last === undefined) return;
    this.#known.delete(key);
    this.#tell(key, () => this.#options.listener.left(key, last, reason));
  }

  #tell(key: string, call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#report(error, key);
    }
  }

  #report(error: unknown, key: string): void {
    try {
      (this.#options.onProblem ?? warn)(error, key);
    } catch {
      // The listener is the last one to tell.
    }
  }
}

function warn(error: unknown, key: string): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.emitWarning(`lease ${key}: ${text}`, { code: 'BUSBAR_LEASE' });
}
