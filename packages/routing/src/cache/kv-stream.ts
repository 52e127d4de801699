import type { KvBatch } from '@busbar/protocol';

/** Batches that are kept while a snapshot is on its way; above that the oldest go and the snapshot is asked for again. */
const BUFFER_BATCHES = 1024;
/** How long the newest batch that a heartbeat tells of may be on its way. */
const LATE_MS = 250;

/**
 * What to do with a batch. `apply`: it is the next one. `drop`: seen before. `hold`: kept for
 * after the snapshot. `gap`: batches were lost. `restart`: the worker's cache began anew, what is indexed of it is void.
 */
export type KvVerdict = 'apply' | 'drop' | 'hold' | 'gap' | 'restart';

/**
 * Position in the KV event stream of one worker: (epoch, sequence). A gap cannot be repaired from later batches, so the stream
 * then waits for a snapshot and replays on top of it what came in between.
 */
export class KvStream {
  epoch: number;
  sequence = 0;
  isSyncing = false;
  syncingSinceMs = 0;
  #held: KvBatch[] = [];
  #lastStale = 0;
  #behindSinceMs = -1;
  #announced = 0;

  constructor(epoch: number) {
    this.epoch = epoch;
  }

  accept(batch: KvBatch): KvVerdict {
    if (batch.epoch !== this.epoch) {
      this.restart(batch.epoch);
      this.#hold(batch);
      return 'restart';
    }
    if (this.isSyncing) {
      this.#hold(batch);
      return 'hold';
    }
    if (batch.sequence === this.sequence + 1) {
      this.sequence = batch.sequence;
      return 'apply';
    }
    if (batch.sequence > this.sequence) {
      this.#hold(batch);
      return 'gap';
    }
    return this.#acceptEarlier(batch);
  }

  /** Forgets the position: everything before belongs to an earlier life of the worker. */
  restart(epoch: number): void {
    this.epoch = epoch;
    this.sequence = 0;
    this.#held = [];
    this.#lastStale = 0;
    this.#behindSinceMs = -1;
  }

  /** A heartbeat tells the newest sequence number. True when batches up to it are overdue. */
  isOverdue(announced: number, nowMs: number): boolean {
    if (this.isSyncing || announced <= this.sequence) {
      this.#behindSinceMs = -1;
      return false;
    }
    if (this.#behindSinceMs < 0 || this.sequence >= this.#announced) {
      this.#behindSinceMs = nowMs;
      this.#announced = announced;
      return false;
    }
    return nowMs - this.#behindSinceMs >= LATE_MS;
  }

  beginSync(nowMs: number): void {
    this.isSyncing = true;
    this.syncingSinceMs = nowMs;
  }

  endSync(): void {
    this.isSyncing = false;
    this.#held = [];
  }

  /**
   * Moves to the snapshot's position and answers the held batches to apply on top. `isComplete` is false when the first of them
   * does not follow the snapshot: another one is needed.
   */
  resume(sequence: number): { batches: KvBatch[]; isComplete: boolean } {
    const held = this.#held;
    this.endSync();
    this.sequence = sequence;
    this.#lastStale = 0;
    const batches: KvBatch[] = [];
    for (const batch of held) {
      if (batch.sequence <= this.sequence) continue;
      if (batch.sequence !== this.sequence + 1) {
        this.#held = held.slice(held.indexOf(batch));
        return { batches, isComplete: false };
      }
      this.sequence = batch.sequence;
      batches.push(batch);
    }
    return { batches, isComplete: true };
  }

  /**
   * A repeat is dropped. A stream that starts at 1 again, or goes on below our position, is a worker that restarted under
   * the same epoch.
   */
  #acceptEarlier(batch: KvBatch): KvVerdict {
    const isNewStart = batch.sequence <= 1 && this.sequence > 1;
    const goesOn = this.#lastStale > 0 && batch.sequence === this.#lastStale + 1;
    if (isNewStart || (goesOn && batch.sequence < this.sequence)) {
      this.restart(batch.epoch);
      this.#hold(batch);
      return 'restart';
    }
    this.#lastStale = batch.sequence;
    return 'drop';
  }

  #hold(batch: KvBatch): void {
    if (this.#held.length >= BUFFER_BATCHES) this.#held.shift();
    this.#held.push(batch);
  }
}
