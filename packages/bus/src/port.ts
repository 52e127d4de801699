/** A message that reached a subscription. `data` is valid only inside the handler unless copied. */
export interface BusMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** Answers a request. Does nothing, and answers false, when the sender did not ask for an answer. */
  respond(data: Uint8Array, headers?: Record<string, string>): boolean;
}

/** Called for each message. May throw: the bus counts and logs it, and goes on with the next message. */
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
}

/** `reconnected` means that messages may have been lost in between and watches were opened anew. */
export type BusStatus = 'connected' | 'disconnected' | 'reconnected' | 'closed';

/**
 * The message bus as Busbar uses it: best-effort subjects (messages between two processes keep their order; any may be
 * lost when a reader is slow or the connection breaks) and buckets of durable keys. One contract suite (`./contract`)
 * holds for every implementation.
 */
export interface Bus {
  readonly status: BusStatus;
  /** Largest payload that `publish` takes; larger ones throw BUS_TOO_LARGE and nothing is sent. */
  readonly maxPayloadBytes: number;
  /** Hands the message over without waiting. While disconnected, messages are buffered up to a bound, then BUS_DISCONNECTED is thrown. */
  publish(subject: string, data: Uint8Array, options?: PublishOptions): void;
  /** Subscriptions in the same `queue` share the messages; each message reaches one of them. */
  subscribe(subject: string, handler: BusHandler, options?: { queue?: string }): Subscription;
  /** Rejects with BUS_NO_RESPONDERS (at once), BUS_TIMEOUT, BUS_ABORTED, BUS_TOO_LARGE, BUS_DISCONNECTED or BUS_CLOSED. */
  request(subject: string, data: Uint8Array, options: RequestOptions): Promise<BusMessage>;
  /** Opens the bucket, creates it when it is missing. `ttl`: keys may carry a time to live (leases). */
  bucket(name: string): Promise<Bucket>;
  onStatus(listener: (status: BusStatus) => void): () => void;
  /** Resolves when everything published so far has reached the server. */
  flush(): Promise<void>;
  /** Stops subscriptions, lets running handlers finish, flushes, closes. */
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
   * Everything that was in the bucket when the watch (re)opened has been told. `keys` is the whole set: what is not in it
   * is gone, even when its deletion was never heard.
   */
  | { kind: 'snapshot'; keys: ReadonlySet<string> };

export interface Bucket {
  get(key: string): Promise<BucketEntry | undefined>;
  put(key: string, value: Uint8Array): Promise<number>;
  delete(key: string): Promise<void>;
  entries(): Promise<BucketEntry[]>;
  /** Tells all entries, then `snapshot`, then every change. Re-opens itself after a reconnect and tells a new snapshot. */
  watch(handler: (change: BucketChange) => void): Promise<Subscription>;
  /** Puts a key that expires `ttlMs` after its last renewal and renews it every `renewMs`, again after each reconnect. */
  lease(
    key: string,
    value: Uint8Array,
    options: { ttlMs: number; renewMs: number },
  ): Promise<Lease>;
}

export interface Lease {
  /** False while the last renewal that the server confirmed is older than the time to live. */
  readonly isHeld: boolean;
  /** Changes the value with the next renewal, which is sent at once. */
  update(value: Uint8Array): Promise<void>;
  /** Stops renewing and deletes the key. */
  release(): Promise<void>;
}
