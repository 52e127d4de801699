import { assert } from '@busbar/base';
import { type Booking, kvTokens, uncachedTokens } from './booking.ts';
import type { HeldBlocks } from './held-blocks.ts';
import type { WorkerColumns } from './worker-columns.ts';
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
  readonly #columns: WorkerColumns;
  #oldest: Booking | undefined;
  #newest: Booking | undefined;

  /**
   * `predicted` holds the blocks of running prefills, which siblings may count on; `active`, when a policy wants it, those of
   * all running requests.
   */
  constructor(columns: WorkerColumns, predicted: HeldBlocks, active?: HeldBlocks) {
    this.#columns = columns;
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
    const { slot } = booking.row;
    const { requests, freeSeats, prefills, prefillTokens, freeTokens } = this.#columns;
    requests[slot]! += 1;
    freeSeats[slot]! -= 1;
    prefills[slot]! += 1;
    prefillTokens[slot]! += uncachedTokens(booking);
    freeTokens[slot]! -= kvTokens(booking);
    this.#linkPrefill(booking);
    this.#predicted.hold(slot, booking.hashes, booking.predictedFrom);
    this.#active?.hold(slot, booking.hashes, 0);
    return booking;
  }

  /** The prefill is over: its tokens are no longer ahead of anybody. */
  firstToken(booking: Booking, nowMs: number): void {
    if (booking.isPrefilling) this.#endPrefill(booking, nowMs);
  }

  remove(booking: Booking, nowMs: number): void {
    if (!this.#byId.delete(booking.decisionId)) return;
    if (booking.isPrefilling) this.#endPrefill(booking, nowMs);
    const { slot } = booking.row;
    const { requests, freeSeats, freeTokens } = this.#columns;
    requests[slot]! -= 1;
    freeSeats[slot]! += 1;
    freeTokens[slot]! += kvTokens(booking);
    this.#active?.release(slot, booking.hashes, 0);
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
    let at = row.oldestPrefill;
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
      const { slot, workerId } = row;
      const { requests, prefills, prefillTokens, freeTokens, capacityTokens } = this.#columns;
      sums.delete(row);
      assert(requests[slot] === sum.requests, `${workerId}: requests are the sum of bookings`);
      assert(prefillTokens[slot] === sum.tokens, `${workerId}: prefill tokens are the sum`);
      const held = capacityTokens[slot]! - freeTokens[slot]!;
      assert(held === sum.kv, `${workerId}: tokens in the cache are the sum`);
      const head = row.oldestPrefill === undefined ? 0 : uncachedTokens(row.oldestPrefill);
      const waiting = this.#columns.waitingTokens[slot]! + head;
      assert(waiting === sum.tokens, `${workerId}: waiting tokens are the sum without the head`);
      assert(prefills[slot] === countPrefills(row), `${workerId}: prefills are in its list`);
    }
    assert(sums.size === 0, 'no booking is on a worker that left');
    if (listed === 0) assert(this.#predicted.size === 0, 'blocks are held by bookings only');
  }

  #endPrefill(booking: Booking, nowMs: number): void {
    const { slot } = booking.row;
    const { prefills, prefillTokens } = this.#columns;
    booking.isPrefilling = false;
    prefills[slot]! -= 1;
    prefillTokens[slot]! -= uncachedTokens(booking);
    this.#unlinkPrefill(booking, nowMs);
    this.#unpredict(booking);
  }

  #unpredict(booking: Booking): void {
    if (!booking.isPredicted) return;
    booking.isPredicted = false;
    this.#predicted.release(booking.row.slot, booking.hashes, booking.predictedFrom);
  }

  #linkPrefill(booking: Booking): void {
    const { row } = booking;
    booking.olderPrefill = row.newestPrefill;
    if (row.newestPrefill === undefined) row.oldestPrefill = booking;
    else row.newestPrefill.newerPrefill = booking;
    row.newestPrefill = booking;
    this.#writeHead(row, booking.bookedMs, booking.olderPrefill === undefined);
  }

  #unlinkPrefill(booking: Booking, nowMs: number): void {
    const { row, olderPrefill: older, newerPrefill: newer } = booking;
    if (newer === undefined) row.newestPrefill = older;
    else newer.olderPrefill = older;
    if (older === undefined) row.oldestPrefill = newer;
    else older.newerPrefill = newer;
    booking.olderPrefill = undefined;
    booking.newerPrefill = undefined;
    this.#writeHead(row, nowMs, older === undefined);
  }

  /** After the sum of prefill tokens or the head of the line changed. A new head begins at `beginMs`. */
  #writeHead({ slot, oldestPrefill: head }: WorkerRow, beginMs: number, isNew: boolean): void {
    const { prefillTokens, waitingTokens, headEndsMs, msPerToken } = this.#columns;
    const tokens = head === undefined ? 0 : uncachedTokens(head);
    waitingTokens[slot] = prefillTokens[slot]! - tokens;
    if (isNew) headEndsMs[slot] = head === undefined ? 0 : beginMs + tokens * msPerToken[slot]!;
  }
}

function countPrefills(row: WorkerRow): number {
  let count = 0;
  for (let at = row.oldestPrefill; at !== undefined; at = at.newerPrefill) {
    assert(at.row === row && at.isPrefilling, `${row.workerId}: its prefill list holds its own`);
    count++;
  }
  return count;
}
