/**
 * A message that reached a subscription. `data` stays what it is and starts at any byte offset: copy it before viewing it as
 * 32-bit words, and do not keep a small part of it for long, since it is a view of all that was read with it. `subject` and
 * `headers` are decoded when they are first read.
 */
export interface BusMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Answers a request. Does nothing, and answers false, when the sender did not ask for an answer. */
  respond(data: Uint8Array, headers?: Record<string, string>): boolean;
}

/** Called for each message. May throw or reject: the bus counts and reports it, and goes on with the next message. */
export type BusHandler = (message: BusMessage) => void;

export interface Subscription {
  unsubscribe(): void;
}

export interface PublishOptions {
  headers?: Record<string, string>;
}

export interface RequestOptions {
  /** Rejects with BUS_TIMEOUT after this. Every request has one. */
  timeoutMs: number;
  headers?: Record<string, string>;
  /** Rejects with BUS_ABORTED. */
  signal?: AbortSignal;
  /** Called with the answer when it comes after the request was given up: what it promises may have to be given back. */
  onLate?: BusHandler;
}

export type BusStatus = 'connected' | 'disconnected' | 'closed';

/** What listeners hear. At `reconnected` messages may have been lost in between, and watches are opened anew. */
export type BusChange = 'disconnected' | 'reconnected' | 'closed';

/** What a bus has counted since it was made. */
export interface BusCounters {
  /** Handlers and listeners that threw or rejected. */
  readonly handlerErrors: number;
  readonly reconnects: number;
  /** Messages that `publish` refused because the buffer of a broken connection was full. */
  readonly refusedPublishes: number;
  /** Watches that were opened again, after a reconnect or because they fell silent. */
  readonly watchReopens: number;
  /** Requests with `onLate` that were given up, and whose answer will not be told because too many others were since. */
  readonly forgottenRequests: number;
}

/**
 * The message bus as Busbar uses it: best-effort subjects (messages between two processes keep their order; any may be
 * lost when a reader is slow or the connection breaks) and buckets of durable keys. One contract suite (`./contract`)
 * holds for every implementation.
 */
export interface Bus {
  readonly status: BusStatus;
  readonly counters: BusCounters;
  /** Largest payload that `publish` takes; larger ones throw BUS_TOO_LARGE and nothing is sent. */
  readonly maxPayloadBytes: number;
  /**
   * Hands the message over without waiting and without copying: `data` must not change afterwards. While disconnected,
   * messages are buffered up to a bound and sent, in order, after the reconnect; above it BUS_DISCONNECTED is thrown.
   */
  publish(subject: string, data: Uint8Array, options?: PublishOptions): void;
  /** Subscriptions in the same `queue` share the messages; each message reaches one of them. */
  subscribe(subject: string, handler: BusHandler, options?: { queue?: string }): Subscription;
  /** Rejects with BUS_NO_RESPONDERS (at once), BUS_TIMEOUT, BUS_ABORTED, BUS_TOO_LARGE, BUS_DISCONNECTED or BUS_CLOSED. */
  request(subject: string, data: Uint8Array, options: RequestOptions): Promise<BusMessage>;
  /** Opens the bucket, creates it when it is missing. Its keys may carry a time to live (leases). */
  bucket(name: string): Promise<Bucket>;
  onStatus(listener: (change: BusChange) => void): () => void;
  /** Resolves when everything published so far has reached the server; rejects with BUS_DISCONNECTED or BUS_CLOSED. */
  flush(): Promise<void>;
  /** Stops subscriptions, lets running handlers finish, flushes, closes. Leases stop being renewed. Never rejects. */
  close(): Promise<void>;
}

export interface BucketEntry {
  key: string;
  value: Uint8Array;
  revision: number;
}

export type BucketChange =
  | { kind: 'put'; key: string; value: Uint8Array; revision: number }
  /** Deleted, purged or expired. */
  | { kind: 'gone'; key: string; revision: number }
  /**
   * Everything that was in the bucket when the watch (re)opened has been told. `keys` is the whole set: what is not in
   * it is gone. Keys that went while the watch was broken are also told as `gone` right before.
   */
  | { kind: 'snapshot'; keys: ReadonlySet<string> };

/** Which keys of a bucket are meant; all of them when nothing is said. */
export interface KeyFilter {
  /**
   * Only keys below one of these first names: `['frontend']` means `frontend.<anything>`. A process that needs few keys
   * says so: each renewal of a lease goes to every watch that covers it, so that watches of everything cost the square of
   * the processes.
   */
  under?: readonly string[];
}

/** Durable keys: letters, digits and `-/_=.`. Calls reject with BUS_DISCONNECTED at once while there is no connection. */
export interface Bucket {
  get(key: string): Promise<BucketEntry | undefined>;
  put(key: string, value: Uint8Array): Promise<number>;
  delete(key: string): Promise<void>;
  entries(filter?: KeyFilter): Promise<BucketEntry[]>;
  /**
   * Tells all entries, then `snapshot`, then every change of a value (a renewed lease with an equal value is none). Opens
   * itself anew after a reconnect, or when it falls silent, and then tells all entries and a snapshot again. With a filter
   * all of that is said of the keys that it covers.
   */
  watch(handler: (change: BucketChange) => void, filter?: KeyFilter): Promise<Subscription>;
  /**
   * Puts a key that expires `ttlMs` after its last renewal (servers may round up to a second) and renews it every
   * `renewMs`, and at once after each reconnect, also when it has gone meanwhile. Rejects when the first put fails.
   */
  lease(
    key: string,
    value: Uint8Array,
    options: { ttlMs: number; renewMs: number },
  ): Promise<Lease>;
}

export interface Lease {
  /** False while the last renewal that the server confirmed is older than the time to live. */
  readonly isHeld: boolean;
  /** Changes the value and sends it at once. When that rejects, the value is kept and goes with the next renewal. */
  update(value: Uint8Array): Promise<void>;
  /** Stops renewing and deletes the key. Without a connection the key is left to expire; never rejects for that. */
  release(): Promise<void>;
}
