import type { Rng } from '@busbar/base';
import { createKvIndex } from '@busbar/kv-index';
import type {
  HeldDecisions,
  KvBatch,
  LifeEvent,
  LinkRecord,
  WorkerInfo,
  WorkerLoad,
} from '@busbar/protocol';
import { Alarm } from './alarm.ts';
import { BookingLedger } from './bookings/booking-ledger.ts';
import { HeldBlocks } from './bookings/held-blocks.ts';
import { LifeLine } from './bookings/life-line.ts';
import { LostBookings } from './bookings/lost-bookings.ts';
import { KvIngest } from './cache/kv-ingest.ts';
import { AdmissionQueue, type Waiting } from './placement/admission-queue.ts';
import { hasNoWishes, isAvailable, type Refusal } from './placement/filter.ts';
import { Placer } from './placement/placer.ts';
import { createPolicy } from './placement/policy.ts';
import { reject, rejectForGood, rejectLate } from './placement/rejection.ts';
import { Legs } from './split/legs.ts';
import { LinkTable } from './split/link-table.ts';
import { PairTable } from './split/pair-table.ts';
import type {
  KvSnapshot,
  PairView,
  RequestEvent,
  RouterConfig,
  RouterCore,
  RouterEffect,
  WorkerView,
} from './types.ts';
import { checkCore, viewOf } from './views.ts';
import { RetiredEpochs } from './workers/retired-epochs.ts';
import { SlotPool } from './workers/slot-pool.ts';
import { WorkerColumns } from './workers/worker-columns.ts';
import type { WorkerPool } from './workers/worker-pool.ts';
import { WorkerRow } from './workers/worker-row.ts';
import { WorkerTable } from './workers/worker-table.ts';

/** Share of the asker's patience after which a waiting request is answered, so that the answer still reaches it. */
const PATIENCE = 0.9;

/**
 * A router without its shell. `rng` breaks ties and marks decision ids; equal seeds and equal calls give equal effects. The
 * hashes of a request are kept by reference until it ended, so the caller must not reuse the array.
 */
export function createRouterCore(config: RouterConfig, rng: Rng): RouterCore {
  return new Core(config, rng);
}

class Core implements RouterCore {
  readonly #config: RouterConfig;
  readonly #index = createKvIndex();
  readonly #owners = new SlotPool();
  readonly #table = new WorkerTable();
  readonly #columns = new WorkerColumns();
  readonly #retired = new RetiredEpochs();
  readonly #alarm = new Alarm();
  readonly #links: LinkTable;
  readonly #pairs: PairTable;
  readonly #queue: AdmissionQueue;
  readonly #ledger: BookingLedger;
  readonly #lost: LostBookings;
  readonly #ingest: KvIngest;
  readonly #placer: Placer;
  readonly #life: LifeLine;

  constructor(config: RouterConfig, rng: Rng) {
    this.#config = config;
    this.#links = new LinkTable(config.disaggregation.assumedBytesPerMs);
    this.#pairs = new PairTable(this.#links);
    this.#queue = new AdmissionQueue(config.queueLimit);
    const predicted = new HeldBlocks();
    const active = config.policy === 'kv' ? new HeldBlocks() : undefined;
    this.#ledger = new BookingLedger(this.#columns, predicted, active);
    this.#lost = new LostBookings(this.#ledger, this.#queue);
    this.#ingest = new KvIngest(this.#index, this.#retired, this.#alarm, {
      graceMs: config.eventGraceMs,
      usesEvents: config.policy !== 'approximate',
    });
    this.#placer = new Placer({
      config,
      rng,
      index: this.#index,
      owners: this.#owners,
      columns: this.#columns,
      table: this.#table,
      pairs: this.#pairs,
      predicted,
      ledger: this.#ledger,
      policy: createPolicy(config.policy, active),
    });
    this.#life = new LifeLine(
      config.routerId,
      this.#table,
      this.#ledger,
      this.#columns,
      new Legs(this.#ledger, this.#pairs),
    );
  }

  onWorkerJoined(workerId: string, epoch: number, info: WorkerInfo, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const known = this.#table.get(workerId);
    if (known !== undefined) {
      if (known.epoch === epoch && isSameButAdapters(known.info, info)) {
        known.info = info;
        known.onHeard(nowMs);
        this.#drain(nowMs, effects);
        return effects;
      }
      this.#removeWorker(known, nowMs);
    }
    this.#retired.revive(workerId, epoch);
    const isGuessing = this.#config.policy === 'approximate';
    const row = new WorkerRow(workerId, this.#table.slots.take(), epoch, info, {
      index: this.#index,
      owners: this.#owners,
      columns: this.#columns,
      reuse: this.#table.openPool(info).reuse,
      truth: isGuessing ? 'approximate' : 'events',
      reason: isGuessing ? 'the policy does not ask for KV events' : 'no evidence against them',
      nowMs,
    });
    this.#table.add(row);
    this.#pairs.onJoined(row, this.#table.partnersOf(info), effects);
    this.#ingest.start(row, nowMs, effects);
    this.#drain(nowMs, effects);
    return effects;
  }

  onWorkerLeft(workerId: string, nowMs: number): RouterEffect[] {
    const row = this.#table.get(workerId);
    if (row !== undefined) this.#removeWorker(row, nowMs);
    return [];
  }

  onLoad(workerId: string, load: WorkerLoad, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const row = this.#table.get(workerId);
    if (row === undefined || this.#retired.has(workerId, load.epoch)) return effects;
    const wasAvailable = isAvailable(row, nowMs, this.#config.loadSilenceMs);
    if (load.epoch !== row.epoch) {
      this.#ledger.removeWhere((booking) => booking.row === row, nowMs);
      this.#ingest.onNewEpoch(row, load.epoch, nowMs, effects);
    }
    if (!wasAvailable) this.#table.hearTogether(nowMs, this.#config.loadSilenceMs);
    row.onLoad(load, nowMs);
    this.#ledger.settle(row);
    this.#ingest.onLoad(row, load, nowMs, effects);
    const isIdle = load.running === 0 && load.waiting === 0;
    const hasFreed =
      isIdle && this.#columns.requests[row.slot]! > 0 && this.#lost.onIdle(row, nowMs);
    if (!wasAvailable || hasFreed) this.#drain(nowMs, effects);
    return effects;
  }

  onKv(workerId: string, batch: KvBatch, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const row = this.#table.get(workerId);
    if (row !== undefined) this.#ingest.onBatch(row, batch, nowMs, effects);
    return effects;
  }

  onKvSnapshot(workerId: string, snapshot: KvSnapshot, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const row = this.#table.get(workerId);
    if (row !== undefined && this.#ingest.onSnapshot(row, snapshot, nowMs, effects)) {
      this.#drain(nowMs, effects);
    }
    return effects;
  }

  onKvSyncFailed(workerId: string, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const row = this.#table.get(workerId);
    if (row !== undefined && this.#ingest.onSyncFailed(row, nowMs, effects)) {
      this.#drain(nowMs, effects);
    }
    return effects;
  }

  onRequest(event: RequestEvent, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const pool = this.#table.pool(event.request.model);
    if (pool === undefined) {
      const hasPrefill = this.#table.prefillPool(event.request.model) !== undefined;
      const message = `no ${hasPrefill ? 'decode ' : ''}worker serves this model`;
      effects.push(reject(event.key, 'ROUTER_NO_WORKERS', message));
      return effects;
    }
    this.#checkBlockSizes(pool, event, nowMs, effects);
    const prefills = this.#table.prefillPool(event.request.model);
    if (prefills !== undefined) this.#checkBlockSizes(prefills, event, nowMs, effects);
    const placed = this.#placer.place(pool, event, nowMs);
    if (typeof placed === 'string') this.#wait(event, placed, nowMs, effects);
    else {
      effects.push(placed);
      this.#alarm.ask(nowMs + this.#config.bookingTtlMs, effects);
    }
    return effects;
  }

  onRequestCancelled(key: number): RouterEffect[] {
    this.#queue.remove(key);
    return [];
  }

  onLife(frontendId: string, event: LifeEvent, hashes: Uint32Array, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const row = this.#life.onEvent(frontendId, event, hashes, nowMs, effects);
    if (row === undefined) return effects;
    if (row.approximate !== undefined) {
      this.#alarm.ask(nowMs + this.#config.approximateTtlMs, effects);
    }
    if (event.kind !== 'booked') this.#ingest.judge(row, nowMs, effects);
    if (event.kind === 'ended') this.#drain(nowMs, effects);
    return effects;
  }

  onHeld(frontendId: string, held: HeldDecisions, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    if (this.#lost.onHeld(frontendId, held, nowMs, effects)) this.#drain(nowMs, effects);
    return effects;
  }

  onFrontendLeft(frontendId: string, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    this.#ledger.removeWhere((booking) => booking.frontendId === frontendId, nowMs);
    for (const { event } of this.#queue.entries()) {
      if (event.request.frontendId === frontendId) this.#queue.remove(event.key);
    }
    this.#drain(nowMs, effects);
    return effects;
  }

  onLink(record: LinkRecord, nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    if (this.#links.onRecord(record, nowMs)) this.#drain(nowMs, effects);
    return effects;
  }

  onLinkGone(prefillWorkerId: string, decodeWorkerId: string): RouterEffect[] {
    this.#links.onGone(prefillWorkerId, decodeWorkerId);
    return [];
  }

  onListening(nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    for (const row of this.#table.all()) row.onHeard(nowMs);
    this.#drain(nowMs, effects);
    return effects;
  }

  onTick(nowMs: number): RouterEffect[] {
    const effects: RouterEffect[] = [];
    const { bookingTtlMs, approximateTtlMs } = this.#config;
    this.#alarm.reset();
    this.#ledger.expire(nowMs - bookingTtlMs, nowMs);
    for (const row of this.#table.all()) {
      this.#ledger.expirePredictions(row, nowMs - approximateTtlMs);
      row.approximate?.expire(nowMs - approximateTtlMs);
      const usedMs = row.approximate?.oldestMs;
      if (usedMs !== undefined) this.#alarm.ask(usedMs + approximateTtlMs, effects);
      row.expireUse(nowMs);
      this.#ingest.judge(row, nowMs, effects);
    }
    this.#drain(nowMs, effects);
    for (const waiting of this.#queue.entries()) {
      const isServed = this.#table.pool(waiting.event.request.model) !== undefined;
      if (this.#queue.isDue(waiting, isServed, nowMs)) this.#expire(waiting, nowMs, effects);
      else this.#alarm.ask(waiting.deadlineMs, effects);
    }
    const oldestMs = this.#ledger.oldestMs;
    if (oldestMs !== undefined) this.#alarm.ask(oldestMs + bookingTtlMs, effects);
    return effects;
  }

  workers(nowMs: number): WorkerView[] {
    const { loadSilenceMs } = this.#config;
    return this.#table
      .sorted()
      .map((row) => viewOf(row, this.#columns, isAvailable(row, nowMs, loadSilenceMs)));
  }

  pairs(nowMs: number): PairView[] {
    return this.#pairs.views(nowMs);
  }

  checkInvariants(): void {
    this.#pairs.checkInvariants(this.#table.all());
    this.#links.checkInvariants(this.#ledger.flights);
    checkCore(this.#table, this.#ledger, this.#index, this.#owners);
  }

  #removeWorker(row: WorkerRow, nowMs: number): void {
    this.#ledger.removeWhere((booking) => booking.row === row, nowMs);
    this.#ledger.settle(row);
    this.#pairs.onLeft(row);
    row.dispose();
    this.#table.remove(row);
    this.#retired.add(row.workerId, row.epoch);
    this.#retired.add(row.workerId, row.stream.epoch);
  }

  #checkBlockSizes(
    pool: WorkerPool,
    event: RequestEvent,
    nowMs: number,
    effects: RouterEffect[],
  ): void {
    const { commonBlockSize } = pool;
    if (commonBlockSize !== undefined && fitsBlocks(event, commonBlockSize)) return;
    for (const row of pool.rows) {
      if (!fitsBlocks(event, row.info.blockSize)) {
        this.#ingest.onBlockSizeMismatch(row, nowMs, effects);
      }
    }
  }

  /** Nobody can take the request now: it waits if that may change, and is refused if not. */
  #wait(event: RequestEvent, refusal: Refusal, nowMs: number, effects: RouterEffect[]): void {
    const { key, request } = event;
    const why = this.#pairs.refusalOf(request.model);
    const rejection = rejectForGood(key, refusal, request, why);
    if (rejection !== undefined) {
      effects.push(rejection);
      return;
    }
    const patienceMs = request.deadlineMs * PATIENCE;
    const waitMs = this.#config.queueWaitMs;
    const waiting = this.#queue.add(event, refusal, { nowMs, waitMs, patienceMs });
    if (waiting !== undefined) {
      this.#alarm.ask(waiting.deadlineMs, effects);
      return;
    }
    const message = `${this.#queue.limit} requests wait for a worker already`;
    effects.push(reject(key, 'ROUTER_QUEUE_FULL', message));
  }

  /** Places whoever can be placed now, longest waiting first. */
  #drain(nowMs: number, effects: RouterEffect[]): void {
    if (this.#queue.length === 0) return;
    const stuck = new Map<string, Refusal>();
    const unprefilled = new Set<string>();
    for (const waiting of this.#queue.entries()) {
      const { event } = waiting;
      const { model } = event.request;
      const pool = this.#table.pool(model);
      if (pool === undefined) continue;
      const known = stuck.get(model);
      if (known !== undefined) {
        waiting.refusal = known;
        continue;
      }
      if (waiting.refusal === 'prefill-unavailable' && unprefilled.has(model)) continue;
      const placed = this.#placer.place(pool, event, nowMs);
      if (typeof placed === 'string') {
        waiting.refusal = placed;
        // Requests without wishes of their own are refused alike; for want of a prefill worker, those that must be split.
        const isPlain = hasNoWishes(event.request);
        if (isPlain && placed === 'prefill-unavailable') unprefilled.add(model);
        else if (isPlain) stuck.set(model, placed);
        continue;
      }
      this.#queue.remove(event.key);
      effects.push(placed);
      this.#alarm.ask(nowMs + this.#config.bookingTtlMs, effects);
    }
  }

  #expire({ event, refusal }: Waiting, nowMs: number, effects: RouterEffect[]): void {
    this.#queue.remove(event.key);
    const pool = this.#table.pool(event.request.model);
    const sinceMs = nowMs - this.#config.loadSilenceMs;
    const isHeard = pool?.rows.some(({ heardMs }) => heardMs >= sinceMs) === true;
    effects.push(rejectLate(event.key, refusal, { isServed: pool !== undefined, isHeard }));
  }
}

/** Adapters come and go while a worker runs; anything else makes it another one. */
function isSameButAdapters(before: WorkerInfo, after: WorkerInfo): boolean {
  return JSON.stringify({ ...before, loras: [] }) === JSON.stringify({ ...after, loras: [] });
}

/** Whether the hashes can be of blocks of this size. The last block may be left out: engines compute the last token anyway. */
function fitsBlocks({ request, hashes }: RequestEvent, blockSize: number): boolean {
  const blocks = hashes.length >> 1;
  const whole = request.promptTokens / blockSize;
  return blocks < 2 || (blocks <= whole && blocks >= whole - 2);
}
