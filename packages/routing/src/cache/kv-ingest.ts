import type { KvIndex } from '@busbar/kv-index';
import type { KvBatch, WorkerLoad } from '@busbar/protocol';
import type { Alarm } from '../alarm.ts';
import type { CacheTruth, KvSnapshot, RouterEffect, TruthCause } from '../types.ts';
import type { RetiredEpochs } from '../workers/retired-epochs.ts';
import type { WorkerRow } from '../workers/worker-row.ts';

/** A snapshot that does not come by then counts as failed. */
const SYNC_TIMEOUT_MS = 5_000;
/** Snapshots in a row that did not close the gap before the events are given up. */
const SYNC_ATTEMPTS = 4;
/** After a demotion, how long until a worker is trusted again; one whose events were missing, as soon as they come. */
const RETRY_MS = 30_000;

type SyncReason = Extract<RouterEffect, { kind: 'sync' }>['reason'];

/**
 * Brings what workers tell of their caches into the index, and decides per worker how far that is believed. Losing messages is normal
 * (the bus drops them when a reader is slow), so each stream is checked for gaps and repaired by a snapshot.
 */
export class KvIngest {
  readonly #index: KvIndex;
  readonly #retired: RetiredEpochs;
  readonly #alarm: Alarm;
  readonly #graceMs: number;
  readonly #usesEvents: boolean;

  /** `usesEvents` is false for a policy that believes only its own guesses. */
  constructor(
    index: KvIndex,
    retired: RetiredEpochs,
    alarm: Alarm,
    options: { graceMs: number; usesEvents: boolean },
  ) {
    this.#index = index;
    this.#retired = retired;
    this.#alarm = alarm;
    this.#graceMs = options.graceMs;
    this.#usesEvents = options.usesEvents;
  }

  /** Begins with a new worker: it is synced first, or at once known to be without events. */
  start(row: WorkerRow, nowMs: number, effects: RouterEffect[]): void {
    if (!this.#usesEvents) {
      this.#becomeReady(row);
      return;
    }
    if (row.info.kvEvents) {
      this.#sync(row, 'joined', nowMs, effects);
      return;
    }
    this.#becomeReady(row);
    this.#move(
      row,
      'approximate',
      ['not_announced', 'the worker announces that it sends no KV events'],
      nowMs,
      effects,
      0,
    );
  }

  onBatch(row: WorkerRow, batch: KvBatch, nowMs: number, effects: RouterEffect[]): void {
    if (!this.#usesEvents || this.#retired.has(row.workerId, batch.epoch)) return;
    const { stream, truth } = row;
    if (batch.epoch !== stream.epoch) this.#retired.add(row.workerId, stream.epoch);
    if (truth.state !== 'events' && !stream.isSyncing) {
      this.#onUnbelieved(row, batch, nowMs, effects);
      return;
    }
    const verdict = stream.accept(batch);
    if (verdict === 'drop') return;
    const wasConfirmed = truth.isConfirmed;
    truth.onEvent(storedBlocks(batch), nowMs);
    if (!wasConfirmed) row.refreshOwners();
    if (verdict === 'restart') {
      this.#forgetCache(row);
      this.#sync(row, 'epoch', nowMs, effects);
    } else if (verdict === 'gap') this.#sync(row, 'gap', nowMs, effects);
    else if (verdict === 'apply') this.#apply(row, batch, nowMs, effects);
  }

  /** Events of a worker that lost its trust say that they flow again; a snapshot begins anew with them. */
  #onUnbelieved(row: WorkerRow, batch: KvBatch, nowMs: number, effects: RouterEffect[]): void {
    if (batch.epoch !== row.stream.epoch) {
      row.stream.restart(batch.epoch);
      this.#forgetCache(row);
    }
    row.truth.onEvent(storedBlocks(batch), nowMs);
    if (row.truth.isFinal || nowMs < row.truth.retryAtMs) return;
    this.#sync(row, 'gap', nowMs, effects);
  }

  /** True when the worker may get requests from now on that it could not get before. */
  onSnapshot(
    row: WorkerRow,
    snapshot: KvSnapshot,
    nowMs: number,
    effects: RouterEffect[],
  ): boolean {
    if (!row.stream.isSyncing || this.#retired.has(row.workerId, snapshot.epoch)) return false;
    if (snapshot.epoch !== row.stream.epoch) {
      this.#retired.add(row.workerId, row.stream.epoch);
      row.stream.restart(snapshot.epoch);
    }
    row.clearEvents();
    for (const { dpRank, tier, hashes } of snapshot.parts) {
      if (!this.#isKnownRank(row, dpRank, nowMs, effects)) return this.#becomeReady(row);
      this.#index.store(row.eventOwner(dpRank, tier), hashes);
    }
    const { batches, isComplete } = row.stream.resume(snapshot.sequence);
    for (const batch of batches) this.#apply(row, batch, nowMs, effects);
    row.syncAttempts++;
    if (!isComplete && row.syncAttempts < SYNC_ATTEMPTS) {
      this.#sync(row, 'gap', nowMs, effects);
      return false;
    }
    if (!isComplete) return this.onSyncFailed(row, nowMs, effects);
    row.syncAttempts = 0;
    if (row.truth.state !== 'events' && !row.truth.isFinal) {
      this.#move(row, 'events', ['recovered', 'KV events arrive again'], nowMs, effects);
    }
    return this.#becomeReady(row);
  }

  /** The same answer as `onSnapshot`: a worker whose blocks are not known still serves. */
  onSyncFailed(row: WorkerRow, nowMs: number, effects: RouterEffect[]): boolean {
    if (row.stream.isSyncing || row.syncAttempts > 0) {
      row.stream.endSync();
      row.syncAttempts = 0;
      if (row.truth.state === 'events') {
        const reason = 'its block set could not be fetched, so a gap in its KV events stays open';
        this.#move(row, 'approximate', ['sync_failed', reason], nowMs, effects);
      } else {
        row.truth.retryAtMs = nowMs + RETRY_MS;
      }
    }
    return this.#becomeReady(row);
  }

  /** The worker began a new life: by its lease, its heartbeat or its events. */
  onNewEpoch(row: WorkerRow, epoch: number, nowMs: number, effects: RouterEffect[]): void {
    this.#retired.add(row.workerId, row.epoch);
    this.#retired.revive(row.workerId, epoch);
    row.epoch = epoch;
    if (row.stream.epoch === epoch) return;
    row.stream.restart(epoch);
    this.#forgetCache(row);
    if (this.#usesEvents && row.info.kvEvents) this.#sync(row, 'epoch', nowMs, effects);
  }

  onLoad(row: WorkerRow, load: WorkerLoad, nowMs: number, effects: RouterEffect[]): void {
    row.truth.onLoad(load, nowMs);
    if (row.truth.state === 'events' && row.stream.isOverdue(load.kvSequence, nowMs)) {
      this.#sync(row, 'heartbeat', nowMs, effects);
    }
    this.judge(row, nowMs, effects);
  }

  /** Hashes of this prompt do not fit the worker's block size, so its events cannot be compared with prompts. */
  onBlockSizeMismatch(row: WorkerRow, nowMs: number, effects: RouterEffect[]): void {
    if (row.truth.isFinal || row.truth.state !== 'events') return;
    row.truth.isFinal = true;
    const reason = `its blocks of ${row.info.blockSize} tokens are not those that frontends hash`;
    this.#move(row, 'approximate', ['block_size', reason], nowMs, effects);
  }

  /** Draws the consequences of the evidence and of time. True when the worker became ready. */
  judge(row: WorkerRow, nowMs: number, effects: RouterEffect[]): boolean {
    const { truth, stream } = row;
    if (stream.isSyncing) {
      const endsMs = stream.syncingSinceMs + SYNC_TIMEOUT_MS;
      if (nowMs >= endsMs) return this.onSyncFailed(row, nowMs, effects);
      this.#alarm.ask(endsMs, effects);
    }
    const divergence = truth.divergence();
    if (truth.state === 'events') {
      const missing = this.#usesEvents ? truth.missingEvents(nowMs, this.#graceMs) : undefined;
      if (missing !== undefined) {
        this.#move(row, 'approximate', ['no_events', missing], nowMs, effects, 0);
      } else if (divergence !== undefined) {
        this.#move(row, 'approximate', ['divergence', divergence], nowMs, effects);
      } else this.#askGrace(row, nowMs, effects);
    } else if (truth.state === 'approximate' && divergence !== undefined) {
      this.#move(row, 'load-only', ['divergence', divergence], nowMs, effects);
    } else if (truth.state === 'load-only') {
      if (nowMs >= truth.retryAtMs) {
        this.#move(row, 'approximate', ['retry', 'its cache is tried again'], nowMs, effects);
      } else this.#alarm.ask(truth.retryAtMs, effects);
    }
    return false;
  }

  /** Once the time is over, heartbeats bring the verdict. */
  #askGrace(row: WorkerRow, nowMs: number, effects: RouterEffect[]): void {
    const endsMs = row.truth.graceEndsMs(this.#graceMs);
    if (endsMs !== undefined && endsMs > nowMs) this.#alarm.ask(endsMs, effects);
  }

  #becomeReady(row: WorkerRow): boolean {
    const wasReady = row.isReady;
    row.isReady = true;
    row.refreshOpen();
    return !wasReady;
  }

  #forgetCache(row: WorkerRow): void {
    row.clearEvents();
    row.approximate?.clear();
  }

  #sync(row: WorkerRow, reason: SyncReason, nowMs: number, effects: RouterEffect[]): void {
    const wasSyncing = row.stream.isSyncing;
    row.stream.beginSync(nowMs);
    this.#alarm.ask(nowMs + SYNC_TIMEOUT_MS, effects);
    // A snapshot under way is of the life that just ended when the epoch changed; otherwise it will do.
    if (wasSyncing && reason !== 'epoch') return;
    effects.push({ kind: 'sync', workerId: row.workerId, reason });
  }

  #move(
    row: WorkerRow,
    to: CacheTruth,
    [cause, reason]: readonly [TruthCause, string],
    nowMs: number,
    effects: RouterEffect[],
    retryMs = RETRY_MS,
  ): void {
    const from = row.truth.state;
    row.truth.moveTo(to, reason, nowMs + retryMs);
    if (to !== 'events') row.clearEvents();
    row.refreshOwners();
    effects.push({
      kind: 'truth',
      workerId: row.workerId,
      model: row.info.model,
      from,
      to,
      reason,
      cause,
    });
  }

  #apply(row: WorkerRow, batch: KvBatch, nowMs: number, effects: RouterEffect[]): void {
    if (!this.#isKnownRank(row, batch.dpRank, nowMs, effects)) return;
    const owner = row.eventOwner(batch.dpRank, batch.tier);
    for (const change of batch.changes) {
      if (change.kind === 'stored') this.#index.store(owner, change.hashes);
      else if (change.kind === 'removed') this.#index.remove(owner, change.hashes);
      else this.#index.clear(owner);
    }
  }

  /** Ranks are bounded by what the worker announced, so that a faulty one cannot use up the index's owners. */
  #isKnownRank(row: WorkerRow, dpRank: number, nowMs: number, effects: RouterEffect[]): boolean {
    if (dpRank < row.info.dpRanks) return true;
    if (!row.truth.isFinal) {
      row.truth.isFinal = true;
      const reason = `its KV events name rank ${dpRank} of ${row.info.dpRanks} announced`;
      this.#move(row, 'approximate', ['bad_rank', reason], nowMs, effects);
    }
    return false;
  }
}

/** A hash is two words. */
function storedBlocks({ changes }: KvBatch): number {
  let words = 0;
  for (const change of changes) if (change.kind === 'stored') words += change.hashes.length;
  return words / 2;
}
