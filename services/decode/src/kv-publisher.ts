import type { KvChanges } from '@busbar/engine';
import { encodeKvBatch, limit, splitKvChanges, type Tier } from '@busbar/protocol';
import type { DecodeMetrics } from './metrics.ts';

/** Numbers the changes of the KV cache and sends them, in batches that fit one message. */
export class KvPublisher {
  readonly #epoch: number;
  readonly #metrics: DecodeMetrics;
  readonly #publish: (data: Uint8Array) => boolean;
  readonly #caches = new Map<string, { dpRank: number; tier: Tier }>();
  #sequence = 0;

  constructor(epoch: number, metrics: DecodeMetrics, publish: (data: Uint8Array) => boolean) {
    this.#epoch = epoch;
    this.#metrics = metrics;
    this.#publish = publish;
  }

  /** Number of the last batch; a snapshot taken now is valid at it. */
  get sequence(): number {
    return this.#sequence;
  }

  send({ dpRank, tier, changes }: KvChanges): void {
    this.#caches.set(`${dpRank}.${tier}`, { dpRank, tier });
    for (const part of splitKvChanges(changes, limit('messageBytes'))) {
      const sequence = ++this.#sequence;
      const data = encodeKvBatch({ epoch: this.#epoch, sequence, dpRank, tier, changes: part });
      this.#metrics.kvBatches.inc();
      // A batch that could not be sent leaves a hole in the sequence, upon which routers ask for a snapshot.
      if (!this.#publish(data)) this.#metrics.lostMessages('kv');
    }
  }

  /** The engine's cache began anew. */
  clear(): void {
    for (const cache of this.#caches.values()) {
      this.send({ ...cache, changes: [{ kind: 'cleared' }] });
    }
  }
}
