import {
  createInbox,
  InvalidArgumentError,
  type Msg,
  type NatsConnection,
  type Subscription as NatsSubscription,
} from '@nats-io/nats-core';
import { type BusError, closed, disconnected, tooLarge } from './errors.ts';
import { type BusErrorListener, Guard } from './guard.ts';
import { NatsBucket } from './nats-bucket.ts';
import { NatsMessage, type Respond, toNatsHeaders } from './nats-message.ts';
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

export interface NatsBusSettings {
  bufferBytes: number;
  replicas: number;
  onError: BusErrorListener | undefined;
}

/** Bounds of the steps of `close`; a server that does not answer must not hold a process. */
const CLOSE_STEP_MS = 2_000;

/** Resolves when `promise` has settled, at the latest after `ms`. */
async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([promise.catch(() => {}), late]);
  clearTimeout(timer);
}

export class NatsBus implements Bus {
  readonly connection: NatsConnection;
  readonly guard: Guard;
  readonly #settings: NatsBusSettings;
  readonly #buffer: OfflineBuffer;
  readonly #requests = new PendingRequests();
  readonly #inbox = createInbox();
  readonly #listeners = new Set<(change: BusChange) => void>();
  readonly #subscriptions = new Set<NatsSubscription>();
  readonly #buckets = new Map<string, Promise<NatsBucket>>();
  /** How to reject each call that is under way. */
  readonly #calls = new Set<(error: BusError) => void>();
  readonly #respond: Respond;
  #status: BusStatus = 'connected';
  #maxPayloadBytes: number;
  #reconnects = 0;
  #refusedPublishes = 0;
  #watchReopens = 0;
  #closing: Promise<void> | undefined;

  constructor(connection: NatsConnection, settings: NatsBusSettings) {
    this.connection = connection;
    this.#settings = settings;
    this.guard = new Guard(settings.onError);
    this.#buffer = new OfflineBuffer(settings.bufferBytes);
    this.#maxPayloadBytes = connection.info?.max_payload ?? 1024 * 1024;
    this.#respond = (subject, data, headers) => this.#send(subject, data, headers);
    connection.subscribe(`${this.#inbox}.*`, { callback: (_error, raw) => this.#onAnswer(raw) });
    void this.#followStatus();
  }

  get status(): BusStatus {
    return this.#status;
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

  get maxPayloadBytes(): number {
    return this.#maxPayloadBytes;
  }

  publish(subject: string, data: Uint8Array, options?: PublishOptions): void {
    this.#send(subject, data, options?.headers);
  }

  subscribe(subject: string, handler: BusHandler, options?: { queue?: string }): Subscription {
    if (this.#closing) throw closed(`subscribe to ${subject}`);
    const subscription = this.connection.subscribe(subject, {
      ...(options?.queue === undefined ? {} : { queue: options.queue }),
      // A throw in here would end the library's reader without a word, so nothing may leave the guard.
      callback: (error, raw) => {
        if (error) this.guard.report(error, `subscription ${subject}`);
        else this.guard.run(handler, new NatsMessage(raw, this.#respond), subject);
      },
    });
    this.#subscriptions.add(subscription);
    return {
      unsubscribe: () => {
        this.#subscriptions.delete(subscription);
        subscription.unsubscribe();
      },
    };
  }

  request(subject: string, data: Uint8Array, options: RequestOptions): Promise<BusMessage> {
    const problem = this.#whyNot(`request on ${subject}`);
    if (problem) return Promise.reject(problem);
    if (data.length > this.#maxPayloadBytes) {
      return Promise.reject(tooLarge(subject, data.length, this.#maxPayloadBytes));
    }
    return this.#requests.start(subject, options, (token) => {
      this.#sendNow(subject, data, options.headers, `${this.#inbox}.${token}`);
    });
  }

  bucket(name: string): Promise<Bucket> {
    const known = this.#buckets.get(name);
    if (known) return known;
    const opening = NatsBucket.open(this, name, this.#settings.replicas);
    this.#buckets.set(name, opening);
    opening.catch(() => this.#buckets.delete(name));
    return opening;
  }

  onStatus(listener: (change: BusChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  flush(): Promise<void> {
    return this.whileConnected('flush', () => this.connection.flush());
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Runs `call`, and rejects with BUS_DISCONNECTED as soon as the connection is down, whatever the call does then. */
  async whileConnected<T>(what: string, call: () => Promise<T>): Promise<T> {
    const problem = this.#whyNot(what);
    if (problem) throw problem;
    const { promise: broken, reject } = Promise.withResolvers<never>();
    this.#calls.add(reject);
    try {
      return await Promise.race([call(), broken]);
    } finally {
      this.#calls.delete(reject);
    }
  }

  countWatchReopen(): void {
    this.#watchReopens++;
  }

  #whyNot(what: string): BusError | undefined {
    if (this.#status === 'closed') return closed(what);
    return this.#status === 'disconnected' ? disconnected(what) : undefined;
  }

  #send(subject: string, data: Uint8Array, headers: Record<string, string> | undefined): void {
    if (data.length > this.#maxPayloadBytes) {
      throw tooLarge(subject, data.length, this.#maxPayloadBytes);
    }
    if (this.#status === 'connected') {
      this.#sendNow(subject, data, headers, undefined);
      return;
    }
    if (this.#status === 'closed') throw closed(`publish on ${subject}`);
    if (!this.#buffer.push({ subject, data, headers })) {
      this.#refusedPublishes++;
      throw disconnected(`publish on ${subject}`);
    }
  }

  #sendNow(
    subject: string,
    data: Uint8Array,
    headers: Record<string, string> | undefined,
    reply: string | undefined,
  ): void {
    if (headers === undefined && reply === undefined) {
      this.connection.publish(subject, data);
      return;
    }
    try {
      this.connection.publish(subject, data, {
        ...(headers === undefined ? {} : { headers: toNatsHeaders(headers) }),
        ...(reply === undefined ? {} : { reply }),
      });
    } catch (error) {
      // The payload fits, but not together with its headers.
      if (error instanceof InvalidArgumentError && error.message.includes('max_payload')) {
        throw tooLarge(subject, data.length, this.#maxPayloadBytes);
      }
      throw error;
    }
  }

  #onAnswer(raw: Msg): void {
    const token = raw.subject.slice(this.#inbox.length + 1);
    if (raw.data.length === 0 && raw.headers?.code === 503) {
      this.#requests.rejectNoResponders(token);
      return;
    }
    const message = new NatsMessage(raw, this.#respond);
    const onLate = this.#requests.resolve(token, message);
    if (onLate !== undefined) this.guard.run(onLate, message, 'late answer');
  }

  async #followStatus(): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === 'disconnect') this.#onDisconnect();
      else if (status.type === 'reconnect') this.#onReconnect();
      else if (status.type === 'error') this.guard.report(status.error, 'NATS server');
    }
    this.#onClosed();
  }

  #onDisconnect(): void {
    if (this.#status !== 'connected') return;
    this.#status = 'disconnected';
    this.#failCalls(disconnected);
    this.#tell('disconnected');
  }

  #onReconnect(): void {
    if (this.#status !== 'disconnected') return;
    this.#maxPayloadBytes = this.connection.info?.max_payload ?? this.#maxPayloadBytes;
    this.#reconnects++;
    this.#status = 'connected';
    for (const { subject, data, headers } of this.#buffer.drain()) {
      this.guard.run(() => this.#sendNow(subject, data, headers, undefined), undefined, subject);
    }
    this.#tell('reconnected');
  }

  #onClosed(): void {
    if (this.#status === 'closed') return;
    this.#status = 'closed';
    this.#failCalls(closed);
    this.#tell('closed');
  }

  #failCalls(error: (what: string) => BusError): void {
    this.#requests.rejectAll(error);
    for (const reject of this.#calls) reject(error('call'));
  }

  #tell(change: BusChange): void {
    for (const listener of this.#listeners) this.guard.run(listener, change, 'status listener');
  }

  async #close(): Promise<void> {
    for (const bucket of await Promise.allSettled(this.#buckets.values())) {
      if (bucket.status === 'fulfilled') bucket.value.stop();
    }
    if (this.#status === 'connected') {
      const draining = [...this.#subscriptions].map((subscription) => subscription.drain());
      await within(Promise.allSettled(draining), CLOSE_STEP_MS);
      await within(this.guard.idle(), CLOSE_STEP_MS);
      await within(this.connection.flush(), CLOSE_STEP_MS);
    }
    await within(this.connection.close(), CLOSE_STEP_MS);
    this.#onClosed();
  }
}
