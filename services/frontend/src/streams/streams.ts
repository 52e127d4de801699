import type { Clock, Rng } from '@busbar/base';
import type { Bus, BusMessage, Subscription } from '@busbar/bus';
import { decodeTokenBatch, lastToken, type StreamDelta, type Subjects } from '@busbar/protocol';
import type { FrontendMetrics } from '../metrics.ts';
import type { StreamOwner } from './stream-owner.ts';

/** The wire takes 32 bits; above 31 each id would be a number on the heap, and be hashed as one for each token. */
const MAX_STREAM_ID = 0x7fff_ffff;
/** Streams that nobody waits for are cancelled at most so often for each worker. */
const STRAY_CANCEL_MS = 500;
/** Workers come and go under new names; those that were silent for longest are forgotten, which loses nothing of others. */
const MAX_WORKERS = 4_096;

export interface StreamHost {
  /** A worker gave a sign of life. */
  heard(workerId: string, nowMs: number): void;
  /** Batches of this worker were lost: any of its streams may miss tokens. */
  batchesLost(workerId: string, nowMs: number): void;
  /** The next delta of this stream does not follow the last one. */
  tokensLost(owner: StreamOwner): void;
  cancelStrays(workerId: string, streamIds: number[]): void;
}

interface Sender {
  sequence: number;
  heardMs: number;
  strayCancelMs: number;
}

/**
 * All running streams of this frontend by stream id, fed by one subscription. The bus drops messages of a slow reader in
 * silence, so every batch and every position is checked.
 */
export class Streams {
  readonly #clock: Clock;
  readonly #metrics: FrontendMetrics;
  readonly #host: StreamHost;
  readonly #owners = new Map<number, StreamOwner>();
  readonly #senders = new Map<string, Sender>();
  readonly #subscription: Subscription;
  #nextId: number;

  constructor(options: {
    bus: Bus;
    subjects: Subjects;
    frontendId: string;
    clock: Clock;
    rng: Rng;
    metrics: FrontendMetrics;
    host: StreamHost;
  }) {
    this.#clock = options.clock;
    this.#metrics = options.metrics;
    this.#host = options.host;
    // A frontend that comes back under its old name must not take over streams of its former life.
    this.#nextId = options.rng.u32() >>> 1;
    this.#subscription = options.bus.subscribe(
      options.subjects.tokensTo(options.frontendId),
      (message) => this.#onBatch(message),
    );
  }

  get size(): number {
    return this.#owners.size;
  }

  /** Hands out a stream id under which tokens for this owner are accepted from now on. */
  open(owner: StreamOwner): number {
    do {
      this.#nextId = this.#nextId >= MAX_STREAM_ID ? 1 : this.#nextId + 1;
    } while (this.#owners.has(this.#nextId));
    this.#owners.set(this.#nextId, owner);
    return this.#nextId;
  }

  close(streamId: number): void {
    this.#owners.delete(streamId);
  }

  stop(): void {
    this.#subscription.unsubscribe();
  }

  #onBatch(message: BusMessage): void {
    const workerId = lastToken(message.subject);
    const nowMs = this.#clock.monotonicMs();
    let batch: ReturnType<typeof decodeTokenBatch>;
    try {
      batch = decodeTokenBatch(message.data);
    } catch (error) {
      this.#metrics.badFrame('tok');
      throw error;
    }
    this.#host.heard(workerId, nowMs);
    const sender = this.#senderOf(workerId);
    sender.heardMs = nowMs;
    // A worker that begins to count anew has lost nothing by that; when it is another process, its lease says so.
    if (batch.sequence !== 1 && batch.sequence !== sender.sequence + 1) {
      this.#metrics.lostBatches(Math.max(1, batch.sequence - sender.sequence - 1));
      this.#host.batchesLost(workerId, nowMs);
    }
    sender.sequence = batch.sequence;
    this.#observeGap(batch.deltas[0], nowMs);
    let strays: number[] | undefined;
    for (const delta of batch.deltas) {
      const owner = this.#owners.get(delta.streamId);
      if (owner?.workerId === workerId) this.#accept(owner, delta, nowMs);
      else if (delta.finish === 'none') (strays ??= []).push(delta.streamId);
      else if (delta.transfer !== undefined) this.#onStrayKv(workerId, delta.streamId);
    }
    if (strays !== undefined) this.#onStrays(workerId, sender, strays, nowMs);
  }

  #accept(owner: StreamOwner, delta: StreamDelta, nowMs: number): void {
    if (delta.position === owner.position) owner.accept(delta, nowMs);
    else this.#host.tokensLost(owner);
  }

  /** One stream of each batch speaks for all: they go through the same engine step, and a histogram costs as much as a token. */
  #observeGap(delta: StreamDelta | undefined, nowMs: number): void {
    const owner = delta === undefined ? undefined : this.#owners.get(delta.streamId);
    if (owner === undefined || owner.lastDeltaMs === 0) return;
    this.#metrics.gap((nowMs - owner.lastDeltaMs) / 1_000);
  }

  #senderOf(workerId: string): Sender {
    let sender = this.#senders.get(workerId);
    if (sender === undefined) {
      if (this.#senders.size >= MAX_WORKERS) this.#forgetSilent();
      sender = { sequence: 0, heardMs: 0, strayCancelMs: 0 };
      this.#senders.set(workerId, sender);
    }
    return sender;
  }

  /** Half at once, so that names which are all new cost no search each. */
  #forgetSilent(): void {
    const byNews = [...this.#senders].toSorted(([, a], [, b]) => a.heardMs - b.heardMs);
    for (const [workerId] of byNews.slice(0, MAX_WORKERS / 2)) this.#senders.delete(workerId);
  }

  /** A stream that was just cancelled may send a little more; one that goes on is told again. */
  #onStrays(workerId: string, sender: Sender, streamIds: number[], nowMs: number): void {
    this.#metrics.strayDeltas(streamIds.length);
    if (nowMs - sender.strayCancelMs < STRAY_CANCEL_MS) return;
    sender.strayCancelMs = nowMs;
    this.#host.cancelStrays(workerId, streamIds);
  }

  /** KV that was staged when nobody waited for it any more: it is told once, so it is given up at once. */
  #onStrayKv(workerId: string, streamId: number): void {
    this.#metrics.strayDeltas(1);
    this.#host.cancelStrays(workerId, [streamId]);
  }
}
