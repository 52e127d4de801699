import { type BusError, closed, disconnected, tooLarge } from './errors.ts';
import { type BusErrorListener, Guard } from './guard.ts';
import { MemoryBucketView } from './memory-bucket.ts';
import type { MemoryNetwork, MemorySubscription, Parcel } from './memory-network.ts';
import { OfflineBuffer } from './offline-buffer.ts';
import { PendingRequests } from './pending-requests.ts';
import type {
  Bucket,
  Bus,
  BusChange,
  BusCounters,
  BusHandler,
  BusMessage,
  BusStatus,
  PublishOptions,
  RequestOptions,
  Subscription,
} from './port.ts';

/** One connection to a MemoryNetwork. */
export class MemoryBus implements Bus {
  readonly guard: Guard;
  readonly #network: MemoryNetwork;
  readonly #inbox: string;
  readonly #buffer: OfflineBuffer;
  readonly #requests = new PendingRequests();
  readonly #listeners = new Set<(change: BusChange) => void>();
  readonly #buckets = new Map<string, MemoryBucketView>();
  /** How to reject each flush whose turn has not come. */
  readonly #flushes = new Set<(error: BusError) => void>();
  #status: BusStatus;
  #reconnects = 0;
  #refusedPublishes = 0;
  #watchReopens = 0;

  constructor(network: MemoryNetwork, inbox: string, onError: BusErrorListener | undefined) {
    this.#network = network;
    this.#inbox = inbox;
    this.#status = network.isUp ? 'connected' : 'disconnected';
    this.guard = new Guard(onError);
    this.#buffer = new OfflineBuffer(network.bufferBytes);
    network.add({
      pattern: `${inbox}.*`,
      queue: undefined,
      bus: this,
      deliver: (parcel) => {
        const message = this.#open(parcel);
        const onLate = this.#requests.resolve(this.#token(parcel.subject), message);
        if (onLate !== undefined) this.guard.run(onLate, message, 'late answer');
      },
    });
  }

  get status(): BusStatus {
    return this.#status;
  }

  get maxPayloadBytes(): number {
    return this.#network.maxPayloadBytes;
  }

  get counters(): BusCounters {
    return {
      handlerErrors: this.guard.errors,
      reconnects: this.#reconnects,
      refusedPublishes: this.#refusedPublishes,
      watchReopens: this.#watchReopens,
      forgottenRequests: this.#requests.forgotten,
    };
  }

  publish(subject: string, data: Uint8Array, options?: PublishOptions): void {
    this.#send({ subject, data, headers: options?.headers, reply: undefined });
  }

  subscribe(subject: string, handler: BusHandler, options?: { queue?: string }): Subscription {
    if (this.#status === 'closed') throw closed(`subscribe to ${subject}`);
    const subscription: MemorySubscription = {
      pattern: subject,
      queue: options?.queue,
      bus: this,
      deliver: (parcel) => this.guard.run(handler, this.#open(parcel), subject),
    };
    this.#network.add(subscription);
    return { unsubscribe: () => this.#network.remove(subscription) };
  }

  request(subject: string, data: Uint8Array, options: RequestOptions): Promise<BusMessage> {
    const problem = this.whyNot(`request on ${subject}`) ?? this.#whyTooLarge(subject, data);
    if (problem) return Promise.reject(problem);
    return this.#requests.start(subject, options, (token) => {
      this.#send({ subject, data, headers: options.headers, reply: `${this.#inbox}.${token}` });
    });
  }

  bucket(name: string): Promise<Bucket> {
    const problem = this.whyNot(`bucket ${name}`);
    if (problem) return Promise.reject(problem);
    let view = this.#buckets.get(name);
    if (view === undefined) {
      view = new MemoryBucketView(this, this.#network.bucket(name), name);
      this.#buckets.set(name, view);
    }
    return Promise.resolve(view);
  }

  onStatus(listener: (change: BusChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  flush(): Promise<void> {
    const problem = this.whyNot('flush');
    if (problem) return Promise.reject(problem);
    return new Promise((resolve, reject) => {
      this.#flushes.add(reject);
      this.#network.later(() => {
        this.#flushes.delete(reject);
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    if (this.#status === 'closed') return;
    for (const view of this.#buckets.values()) view.stop();
    await this.flush().catch(() => {});
    this.#network.leave(this);
    await this.guard.idle();
    this.#status = 'closed';
    this.#requests.rejectAll(closed);
    this.#tell('closed');
  }

  /** What a call must be refused with, if it must. */
  whyNot(what: string): BusError | undefined {
    if (this.#status === 'closed') return closed(what);
    return this.#status === 'disconnected' ? disconnected(what) : undefined;
  }

  onDisconnect(): void {
    this.#status = 'disconnected';
    this.#requests.rejectAll(disconnected);
    for (const reject of this.#flushes) reject(disconnected('flush'));
    this.#flushes.clear();
    this.#tell('disconnected');
  }

  onReconnect(): void {
    this.#status = 'connected';
    this.#reconnects++;
    for (const message of this.#buffer.drain()) {
      this.#network.route({ ...message, reply: undefined });
    }
    for (const view of this.#buckets.values()) this.#watchReopens += view.onReconnect();
    this.#tell('reconnected');
  }

  onNoResponders(reply: string): void {
    if (reply.startsWith(`${this.#inbox}.`)) this.#requests.rejectNoResponders(this.#token(reply));
  }

  #whyTooLarge(subject: string, data: Uint8Array): BusError | undefined {
    const limit = this.maxPayloadBytes;
    return data.length > limit ? tooLarge(subject, data.length, limit) : undefined;
  }

  #send(parcel: Parcel): void {
    const { subject } = parcel;
    const problem = this.#whyTooLarge(subject, parcel.data);
    if (problem) throw problem;
    if (this.#status === 'closed') throw closed(`publish on ${subject}`);
    // As on a wire: what the sender does with its memory afterwards does not reach the receiver.
    const data = parcel.data.slice();
    if (this.#status === 'connected') this.#network.route({ ...parcel, data });
    else if (!this.#buffer.push({ subject, data, headers: parcel.headers })) {
      this.#refusedPublishes++;
      throw disconnected(`publish on ${subject}`);
    }
  }

  #open(parcel: Parcel): BusMessage {
    const { subject, data, headers, reply } = parcel;
    return {
      subject,
      data,
      headers: headers && { ...headers },
      respond: (answer, answerHeaders) => {
        if (reply === undefined) return false;
        this.#send({ subject: reply, data: answer, headers: answerHeaders, reply: undefined });
        return true;
      },
    };
  }

  #token(subject: string): string {
    return subject.slice(this.#inbox.length + 1);
  }

  #tell(change: BusChange): void {
    for (const listener of this.#listeners) this.guard.run(listener, change, 'status listener');
  }
}
