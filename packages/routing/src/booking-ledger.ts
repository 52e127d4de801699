import { assert } from '@busbar/base';
import { type Booking, kvTokens, uncachedTokens } from './booking.ts';
import type { HeldBlocks } from './held-blocks.ts';
import type { WorkerRow } from './worker-row.ts';

/** What a booking is made of; the ledger adds the rest. */
export type NewBooking = Omit<
  Booking,
  'isPrefilling' | 'isPredicted' | 'older' | 'newer' | 'olderPrefill' | 'newerPrefill'
>;

/**
 * All placed requests and what they weigh on their workers. Booking and choosing happen in one synchronous step, so a burst never
 * chooses by old figures; every way out of the ledger takes off exactly what came in.
 */
export class BookingLedger {
  readonly #byId = new Map<string, Booking>();
  readonly #predicted: HeldBlocks;
  readonly #active: HeldBlocks | undefined;
  #oldest: Booking | undefined;
  #newest: Booking | undefined;

  /**
   * `predicted` holds the blocks of running prefills, which siblings may count on; `active`, when a policy wants it, those of
   * all running requests.
   */
  constructor(predicted: HeldBlocks, active?: HeldBlocks) {
    this.#predicted = predicted;
    this.#active = active;
  }

  get size(): number {
    return this.#byId.size;
  }

  /** Time of the oldest booking. */
  get oldestMs(): number | undefined {
    return this.#oldest?.bookedMs;
  }

  get(decisionId: string): Booking | undefined {
    return this.#byId.get(decisionId);
  }

  /** Books. A decision that is known already is left as it is and answers undefined. */
  add(fields: NewBooking): Booking | undefined {
    if (this.#byId.has(fields.decisionId)) return undefined;
    const booking: Booking = {
      decisionId: fields.decisionId,
      routerId: fields.routerId,
      frontendId: fields.frontendId,
      row: fields.row,
      hashes: fields.hashes,
      promptTokens: fields.promptTokens,
      cachedTokens: fields.cachedTokens,
      outputTokens: fields.outputTokens,
      seenTokens: fields.seenTokens,
      predictedFrom: fields.predictedFrom,
      bookedMs: fields.bookedMs,
      isPrefilling: true,
      isPredicted: true,
      older: this.#newest,
      newer: undefined,
      olderPrefill: undefined,
      newerPrefill: undefined,
    };
    this.#byId.set(booking.decisionId, booking);
    if (this.#newest === undefined) this.#oldest = booking;
    else this.#newest.newer = booking;
    this.#newest = booking;
    const { booked, slot } = booking.row;
    booked.requests++;
    booked.prefillTokens += uncachedTokens(booking);
    booked.kvTokens += kvTokens(booking);
    linkPrefill(booking);
    this.#predicted.hold(slot, booking.hashes, booking.predictedFrom);
    this.#active?.hold(slot, booking.hashes, 0);
    return booking;
  }

  /** The prefill is over: its tokens are no longer ahead of anybody. */
  firstToken(booking: Booking, nowMs: number): void {
    if (!booking.isPrefilling) return;
    this.#endPrefill(booking, nowMs);
    booking.row.booked.decoding++;
  }

  remove(booking: Booking, nowMs: number): void {
    if (!this.#byId.delete(booking.decisionId)) return;
    const { booked } = booking.row;
    if (booking.isPrefilling) this.#endPrefill(booking, nowMs);
    else booked.decoding--;
    booked.requests--;
    booked.kvTokens -= kvTokens(booking);
    this.#active?.release(booking.row.slot, booking.hashes, 0);
    if (booking.older === undefined) this.#oldest = booking.newer;
    else booking.older.newer = booking.newer;
    if (booking.newer === undefined) this.#newest = booking.older;
    else booking.newer.older = booking.older;
  }

  /** Removes every booking that `isGone` names. Rare: walks all of them. */
  removeWhere(isGone: (booking: Booking) => boolean, nowMs: number): void {
    for (const booking of this.#byId.values()) {
      if (isGone(booking)) this.remove(booking, nowMs);
    }
  }

  /** Removes what was booked at `beforeMs` or earlier. */
  expire(beforeMs: number, nowMs: number): void {
    while (this.#oldest !== undefined && this.#oldest.bookedMs <= beforeMs) {
      this.remove(this.#oldest, nowMs);
    }
  }

  /** Stops believing in the blocks of prefills booked at `beforeMs` or earlier; they stay booked. */
  expirePredictions(row: WorkerRow, beforeMs: number): void {
    let at = row.booked.oldestPrefill;
    while (at !== undefined && at.bookedMs <= beforeMs) {
      this.#unpredict(at);
      at = at.newerPrefill;
    }
  }

  /** Throws unless each row's load is the sum of its bookings and the lists hold each booking once. */
  checkInvariants(rows: Iterable<WorkerRow>): void {
    const sums = new Map<WorkerRow, { requests: number; tokens: number; kv: number }>();
    let listed = 0;
    for (let booking = this.#oldest; booking !== undefined; booking = booking.newer) {
      listed++;
      assert(this.#byId.get(booking.decisionId) === booking, 'booking is listed and not known');
      const sum = sums.get(booking.row) ?? { requests: 0, tokens: 0, kv: 0 };
      sum.requests++;
      sum.kv += kvTokens(booking);
      if (booking.isPrefilling) sum.tokens += uncachedTokens(booking);
      sums.set(booking.row, sum);
    }
    assert(listed === this.#byId.size, 'every booking is in the list once');
    for (const row of rows) {
      const sum = sums.get(row) ?? { requests: 0, tokens: 0, kv: 0 };
      const { booked } = row;
      sums.delete(row);
      assert(booked.requests === sum.requests, `${row.workerId}: requests are the sum of bookings`);
      assert(booked.prefillTokens === sum.tokens, `${row.workerId}: prefill tokens are the sum`);
      assert(booked.kvTokens === sum.kv, `${row.workerId}: tokens in the cache are the sum`);
      assert(countPrefills(row) + booked.decoding === booked.requests, `${row.workerId}: phases`);
    }
    assert(sums.size === 0, 'no booking is on a worker that left');
    if (listed === 0) assert(this.#predicted.size === 0, 'blocks are held by bookings only');
  }

  #endPrefill(booking: Booking, nowMs: number): void {
    booking.isPrefilling = false;
    booking.row.booked.prefillTokens -= uncachedTokens(booking);
    unlinkPrefill(booking, nowMs);
    this.#unpredict(booking);
  }

  #unpredict(booking: Booking): void {
    if (!booking.isPredicted) return;
    booking.isPredicted = false;
    this.#predicted.release(booking.row.slot, booking.hashes, booking.predictedFrom);
  }
}

function linkPrefill(booking: Booking): void {
  const { booked } = booking.row;
  booking.olderPrefill = booked.newestPrefill;
  if (booked.newestPrefill === undefined) {
    booked.oldestPrefill = booking;
    booked.headSinceMs = booking.bookedMs;
  } else {
    booked.newestPrefill.newerPrefill = booking;
  }
  booked.newestPrefill = booking;
}

function unlinkPrefill(booking: Booking, nowMs: number): void {
  const { booked } = booking.row;
  const { olderPrefill: older, newerPrefill: newer } = booking;
  if (older === undefined) {
    booked.oldestPrefill = newer;
    booked.headSinceMs = nowMs;
  } else {
    older.newerPrefill = newer;
  }
  if (newer === undefined) booked.newestPrefill = older;
  else newer.olderPrefill = older;
  booking.olderPrefill = undefined;
  booking.newerPrefill = undefined;
}

function countPrefills(row: WorkerRow): number {
  let count = 0;
  for (let at = row.booked.oldestPrefill; at !== undefined; at = at.newerPrefill) {
    assert(at.row === row && at.isPrefilling, `${row.workerId}: its prefill list holds its own`);
    count++;
  }
  return count;
}
