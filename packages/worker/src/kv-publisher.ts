import type { KvChanges } from '@busbar/engine';
import { encodeKvBatch, type KvChange, limit, splitKvChanges, type Tier } from '@busbar/protocol';
import type { WorkerMetrics } from './metrics.ts';

/**
 * Running sequences fill a block here and there in nearly every step. A message for each would wake the bus and every
 * router, so they wait for the next heartbeat, and no longer than this; until then routers count on what a prefill left.
 */
const GATHER_MS = 300;
const EAGER_BLOCKS = limit('kvEagerBlocks');
/** So many of whatever kind do not wait: what routers must take in at a time stays small. */
const MAX_WAITING_BLOCKS = 512;

interface Cache {
  dpRank: number;
  tier: Tier;
  changes: KvChange[];
}

/** Numbers the changes of the KV cache and sends them, gathered for a moment, in batches that fit one message. */
export class KvPublisher {
  readonly #epoch: number;
  readonly #metrics: WorkerMetrics;
  readonly #publish: (data: Uint8Array) => boolean;
  readonly #caches = new Map<string, Cache>();
  #sequence = 0;
  #waitingBlocks = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(epoch: number, metrics: WorkerMetrics, publish: (data: Uint8Array) => boolean) {
    this.#epoch = epoch;
    this.#metrics = metrics;
    this.#publish = publish;
  }

  /** Number of the last batch that was sent. */
  get sequence(): number {
    return this.#sequence;
  }

  send({ dpRank, tier, changes }: KvChanges): void {
    const key = `${dpRank}.${tier}`;
    let cache = this.#caches.get(key);
    if (cache === undefined) {
      cache = { dpRank, tier, changes: [] };
      this.#caches.set(key, cache);
    }
    let isEager = false;
    for (const change of changes) {
      cache.changes.push(change);
      const blocks = change.kind === 'cleared' ? EAGER_BLOCKS : change.hashes.length >> 1;
      this.#waitingBlocks += blocks;
      isEager ||= blocks >= EAGER_BLOCKS;
    }
    if (isEager || this.#waitingBlocks >= MAX_WAITING_BLOCKS) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), GATHER_MS);
  }

  /** Sends what waits now; a snapshot taken right after is valid at `sequence`. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waitingBlocks = 0;
    for (const cache of this.#caches.values()) this.#flushCache(cache);
  }

  /** The engine's cache began anew. */
  clear(): void {
    for (const { dpRank, tier } of this.#caches.values()) {
      this.send({ dpRank, tier, changes: [{ kind: 'cleared' }] });
    }
  }

  #flushCache(cache: Cache): void {
    if (cache.changes.length === 0) return;
    const { dpRank, tier, changes } = cache;
    cache.changes = [];
    for (const part of splitKvChanges(changes, limit('messageBytes'))) {
      const sequence = ++this.#sequence;
      const data = encodeKvBatch({ epoch: this.#epoch, sequence, dpRank, tier, changes: part });
      this.#metrics.kvBatches.inc();
      // A batch that could not be sent leaves a hole in the sequence, upon which routers ask for a snapshot.
      if (!this.#publish(data)) this.#metrics.lostMessages('kv');
    }
  }
}
