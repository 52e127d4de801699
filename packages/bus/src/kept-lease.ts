import { closed } from './errors.ts';
import type { Lease } from './port.ts';

/** What a lease needs from a bucket. */
export interface LeaseTarget {
  /** Writes the key so that it expires `ttlMs` after this write. */
  write(value: Uint8Array, ttlMs: number): Promise<void>;
  remove(): Promise<void>;
  isConnected(): boolean;
  /** Told when a renewal fails while the connection is there. */
  report(error: unknown): void;
  /** Told once, when the lease renews no more. */
  ended(): void;
}

export interface LeaseTimes {
  ttlMs: number;
  renewMs: number;
}

/** A lease over any bucket: renews in time, one write at a time, and knows how old the last confirmed one is. */
export class KeptLease implements Lease {
  readonly #target: LeaseTarget;
  readonly #times: LeaseTimes;
  #value: Uint8Array;
  #timer: NodeJS.Timeout | undefined;
  /** When the newest confirmed write was sent: the server counts from later on, so this errs on the safe side. */
  #confirmedMs = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> = Promise.resolve();
  #writes = 0;
  #released = false;

  private constructor(target: LeaseTarget, value: Uint8Array, times: LeaseTimes) {
    this.#target = target;
    this.#times = times;
    this.#value = value;
  }

  /** Resolves when the key is written. */
  static async create(
    target: LeaseTarget,
    value: Uint8Array,
    times: LeaseTimes,
  ): Promise<KeptLease> {
    const lease = new KeptLease(target, value, times);
    await lease.#write();
    // A lease alone does not keep a process alive.
    lease.#timer = setInterval(() => lease.#tick(), times.renewMs).unref();
    return lease;
  }

  get isHeld(): boolean {
    return !this.#released && performance.now() - this.#confirmedMs < this.#times.ttlMs;
  }

  update(value: Uint8Array): Promise<void> {
    if (this.#released) return Promise.reject(closed('lease'));
    this.#value = value;
    return this.#write();
  }

  /** Renews at once; failures are left to the next renewal. */
  renew(): void {
    if (this.#released) return;
    this.#write().catch((error: unknown) => {
      if (this.#target.isConnected()) this.#target.report(error);
    });
  }

  /** Stops renewing and leaves the key to expire. */
  abandon(): void {
    if (this.#released) return;
    this.#released = true;
    clearInterval(this.#timer);
    this.#target.ended();
  }

  async release(): Promise<void> {
    if (this.#released) return;
    this.abandon();
    await this.#writing.catch(() => {});
    if (!this.#target.isConnected()) return;
    await this.#target.remove().catch((error: unknown) => {
      if (this.#target.isConnected()) this.#target.report(error);
    });
  }

  #tick(): void {
    if (this.#writes === 0) this.renew();
  }

  /** Writes the newest value after the writes before it have ended. */
  #write(): Promise<void> {
    this.#writes++;
    const write = async (): Promise<void> => {
      try {
        const sentMs = performance.now();
        await this.#target.write(this.#value, this.#times.ttlMs);
        this.#confirmedMs = sentMs;
      } finally {
        this.#writes--;
      }
    };
    const result = this.#writing.then(write, write);
    this.#writing = result.catch(() => {});
    return result;
  }
}
