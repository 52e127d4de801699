import { AckPolicy, DeliverPolicy, jetstreamManager, ReplayPolicy } from '@nats-io/jetstream';
import {
  createInbox,
  type Msg,
  type Subscription as NatsSubscription,
  nanos,
  nuid,
} from '@nats-io/nats-core';
import { ChangeTeller } from './change-teller.ts';
import type { NatsBucket } from './nats-bucket.ts';
import type { BucketChange, KeyFilter, Subscription } from './port.ts';

/** The server sends a sign of life this often on a watch without changes. */
const HEARTBEAT_MS = 1_000;
/** A watch that hears nothing for this long is broken and opened anew. */
const SILENCE_MS = 4 * HEARTBEAT_MS;
/** The server forgets a consumer that nobody listens to after this. */
const INACTIVE_MS = 10_000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 2_000;

interface Delivery {
  streamSeq: number;
  consumerSeq: number;
  pending: number;
}

/** Reads `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<tries>.<streamSeq>.<consumerSeq>.<time>.<pending>[.<x>]`. */
function parseDelivery(reply: string): Delivery {
  const tokens = reply.split('.');
  const first = tokens.length >= 11 ? 7 : 5;
  return {
    streamSeq: Number(tokens[first]),
    consumerSeq: Number(tokens[first + 1]),
    pending: Number(tokens[first + 3]),
  };
}

/**
 * One watch: at any time at most one push consumer on the server. It is deleted and made anew after a reconnect, on a
 * gap in its sequence, and when it falls silent; each opening tells everything again.
 */
export class NatsWatch implements Subscription {
  readonly #bucket: NatsBucket;
  readonly #teller: ChangeTeller;
  readonly #prefixLength: number;
  readonly #filterSubjects: string[];
  #inbox: NatsSubscription | undefined;
  #consumer: string | undefined;
  /** Counts openings; what belongs to an older one is ignored. */
  #opening = 0;
  #lastSeq = 0;
  #heardMs = 0;
  #pulse: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    bucket: NatsBucket,
    handler: (change: BucketChange) => void,
    { under }: KeyFilter = {},
  ) {
    this.#bucket = bucket;
    this.#filterSubjects = (under?.map((name) => `${name}.>`) ?? ['>']).map((key) =>
      bucket.subjectOf(key),
    );
    this.#prefixLength = bucket.subjectOf('').length;
    this.#teller = new ChangeTeller((change) => {
      if (!this.#closed) bucket.bus.guard.run(handler, change, `watch of ${bucket.name}`);
    });
  }

  /** Opens for the first time; rejects when that fails. */
  async open(): Promise<void> {
    try {
      await this.#openOnce(++this.#opening);
    } catch (error) {
      this.unsubscribe();
      throw error;
    }
    this.#pulse = setInterval(() => this.#checkPulse(), HEARTBEAT_MS).unref();
  }

  /** Starts to open anew, with growing waits until it works; a later call replaces this one. */
  reopen(): void {
    if (this.#closed) return;
    this.#bucket.bus.countWatchReopen();
    void this.#keepOpening(++this.#opening);
  }

  unsubscribe(): void {
    this.#closed = true;
    this.#opening++;
    clearInterval(this.#pulse);
    this.#leave();
  }

  async #keepOpening(opening: number): Promise<void> {
    for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
      try {
        await this.#openOnce(opening);
        return;
      } catch (error) {
        // The next reconnect opens it again.
        if (opening !== this.#opening || this.#bucket.bus.status !== 'connected') return;
        this.#bucket.bus.guard.report(error, `watch of ${this.#bucket.name}`);
      }
      await new Promise((resolve) => setTimeout(resolve, waitMs * (0.5 + Math.random())).unref());
      if (opening !== this.#opening) return;
    }
  }

  async #openOnce(opening: number): Promise<void> {
    this.#leave();
    const { bus, client, streamName } = this.#bucket;
    const deliverSubject = createInbox();
    const consumer = nuid.next();
    this.#lastSeq = 0;
    // Not silent while the answer is awaited; the call has its own limit.
    this.#heardMs = Number.POSITIVE_INFINITY;
    this.#consumer = consumer;
    this.#teller.begin();
    this.#inbox = bus.connection.subscribe(deliverSubject, {
      callback: (error, raw) => {
        if (error) bus.guard.report(error, `watch of ${this.#bucket.name}`);
        else bus.guard.run(() => this.#onMessage(opening, raw), undefined, deliverSubject);
      },
    });
    const info = await this.#bucket.call('watch', async () => {
      const manager = await jetstreamManager(bus.connection, {
        ...client.getOptions(),
        checkAPI: false,
      });
      return manager.consumers.add(streamName, {
        name: consumer,
        deliver_subject: deliverSubject,
        deliver_policy: DeliverPolicy.LastPerSubject,
        ack_policy: AckPolicy.None,
        replay_policy: ReplayPolicy.Instant,
        filter_subjects: this.#filterSubjects,
        idle_heartbeat: nanos(HEARTBEAT_MS),
        inactive_threshold: nanos(INACTIVE_MS),
        mem_storage: true,
        num_replicas: 1,
      });
    });
    if (opening !== this.#opening) return;
    this.#heardMs = performance.now();
    if (info.num_pending === 0 && this.#lastSeq === 0) this.#teller.end();
  }

  #onMessage(opening: number, raw: Msg): void {
    if (opening !== this.#opening) return;
    this.#heardMs = performance.now();
    const code = raw.headers?.code ?? 0;
    if (code !== 0) {
      this.#onServerNote(code, raw);
      return;
    }
    const { streamSeq, consumerSeq, pending } = parseDelivery(raw.reply ?? '');
    if (consumerSeq !== this.#lastSeq + 1) {
      this.reopen();
      return;
    }
    this.#lastSeq = consumerSeq;
    const key = raw.subject.slice(this.#prefixLength);
    const isGone = raw.headers?.has('KV-Operation') || raw.headers?.has('Nats-Marker-Reason');
    if (isGone) this.#teller.gone(key, streamSeq);
    // Copied: the message shares memory with everything else that came in with it.
    else this.#teller.put(key, raw.data.slice(), streamSeq);
    if (pending === 0) this.#teller.end();
  }

  /** Heartbeats (100) say how far the consumer is; anything else says that it is gone. */
  #onServerNote(code: number, raw: Msg): void {
    if (code !== 100) {
      this.reopen();
      return;
    }
    const sent = Number(raw.headers?.get('Nats-Last-Consumer') ?? 0);
    if (sent > this.#lastSeq) this.reopen();
    else this.#teller.end();
  }

  #checkPulse(): void {
    const isSilent = (): boolean =>
      this.#bucket.bus.status === 'connected' && performance.now() - this.#heardMs > SILENCE_MS;
    if (!isSilent()) return;
    // After a blocked event loop, what has arrived meanwhile is read first.
    setImmediate(() => {
      if (isSilent()) this.reopen();
    });
  }

  /** Stops listening and tells the server to forget the consumer; if that is not heard, it forgets it by itself. */
  #leave(): void {
    this.#inbox?.unsubscribe();
    this.#inbox = undefined;
    const consumer = this.#consumer;
    this.#consumer = undefined;
    const { bus, streamName } = this.#bucket;
    if (consumer === undefined || bus.status !== 'connected') return;
    bus
      .request(`$JS.API.CONSUMER.DELETE.${streamName}.${consumer}`, new Uint8Array(), {
        timeoutMs: 5_000,
      })
      .catch(() => {});
  }
}
