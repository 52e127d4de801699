import { assert } from '@busbar/base';
import { limit } from '@busbar/protocol';
import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import { type Booking, kvTokens, uncachedTokens } from './booking.ts';
import { checkBookings } from './booking-checks.ts';
import type { HeldBlocks } from './held-blocks.ts';

/** Prefills of one worker between two heartbeats that are kept in mind; four times as many a second are more than engines begin. */
const MAX_UNTOLD = 64;

/** What a booking is made of; the ledger adds the rest. */
export type NewBooking = Omit<
  Booking,
  'isPrefilling' | 'isPredicted' | 'older' | 'newer' | 'olderInLine' | 'newerInLine'
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
   * `predicted` holds the blocks of prefills that run or have just ended, which siblings may count on; `active`, when a policy wants it,
   * those of all running requests.
   */
  constructor(columns: WorkerColumns, predicted: HeldBlocks, active?: HeldBlocks) {
    this.#columns = columns;
    this.#predicted = predicted;
    this.#active = active;
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
      ask: fields.ask,
      row: fields.row,
      hashes: fields.hashes,
      promptTokens: fields.promptTokens,
      cachedTokens: fields.cachedTokens,
      residentTokens: fields.residentTokens,
      outputTokens: fields.outputTokens,
      seenTokens: fields.seenTokens,
      predictedFrom: fields.predictedFrom,
      bookedMs: fields.bookedMs,
      isFetched: fields.isFetched,
      flight: fields.flight,
      isPrefilling: true,
      isPredicted: true,
      older: this.#newest,
      newer: undefined,
      olderInLine: undefined,
      newerInLine: undefined,
    };
    this.#byId.set(booking.decisionId, booking);
    if (this.#newest === undefined) this.#oldest = booking;
    else this.#newest.newer = booking;
    this.#newest = booking;
    const { slot } = booking.row;
    const { requests, freeSeats, freeTokens } = this.#columns;
    requests[slot]! += 1;
    freeSeats[slot]! -= 1;
    freeTokens[slot]! -= kvTokens(booking);
    this.#stand(booking, booking.bookedMs);
    this.#predicted.hold(slot, booking.hashes, booking.predictedFrom);
    this.#active?.hold(slot, booking.hashes, 0);
    return booking;
  }

  /**
   * The prefill is over: its tokens are no longer ahead of anybody. Few blocks, of which events tell with the next heartbeat, count as
   * predicted until `settle`; of more they have told, and where events are not believed the router's own guess has them from now on.
   */
  firstToken(booking: Booking, nowMs: number): void {
    if (!booking.isPrefilling) return;
    this.#endPrefill(booking, nowMs);
    const { row, hashes, predictedFrom } = booking;
    const blocks = (hashes.length >> 1) - predictedFrom;
    const isToldLater = blocks < limit('kvEagerBlocks') && booking.isPredicted;
    if (!isToldLater || row.truth.state !== 'events' || !row.truth.isConfirmed) {
      this.#unpredict(booking);
      return;
    }
    if (row.untold.length === MAX_UNTOLD) this.settle(row);
    row.untold.push(booking);
  }

  /** The worker has told by now, or never will, what the prefills that ended before left in its cache. */
  settle({ untold }: WorkerRow): void {
    for (const booking of untold) this.#unpredict(booking);
    untold.length = 0;
  }

  /** Its KV will not come: whoever keeps the decode worker computes the prompt there. */
  giveUpFetch(booking: Booking, nowMs: number): void {
    if (!booking.isPrefilling || !booking.isFetched) return;
    this.#leave(booking, nowMs);
    booking.isFetched = false;
    booking.cachedTokens = booking.residentTokens;
    this.#stand(booking, nowMs);
  }

  remove(booking: Booking, nowMs: number): void {
    if (!this.#byId.delete(booking.decisionId)) return;
    if (booking.isPrefilling) {
      this.#endPrefill(booking, nowMs);
      this.#unpredict(booking);
    }
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

  /** Removes every booking that `isGone` names, and says how many. Rare: walks all of them. */
  removeWhere(isGone: (booking: Booking) => boolean, nowMs: number): number {
    const before = this.#byId.size;
    for (const booking of this.#byId.values()) {
      if (isGone(booking)) this.remove(booking, nowMs);
    }
    return before - this.#byId.size;
  }

  /** Removes what was booked at `beforeMs` or earlier. */
  expire(beforeMs: number, nowMs: number): void {
    while (this.#oldest !== undefined && this.#oldest.bookedMs <= beforeMs) {
      this.remove(this.#oldest, nowMs);
    }
  }

  /** Stops believing in the blocks of prefills booked at `beforeMs` or earlier; they stay booked. */
  expirePredictions(row: WorkerRow, beforeMs: number): void {
    for (const line of [row.prefills, row.fetches]) {
      for (const booking of line) {
        if (booking.bookedMs > beforeMs) break;
        this.#unpredict(booking);
      }
    }
    for (const booking of row.untold) {
      if (booking.bookedMs <= beforeMs) this.#unpredict(booking);
    }
  }

  /** Transfers that placed requests wait for. */
  get flights(): number {
    let count = 0;
    for (const { isPrefilling, flight } of this.#byId.values()) {
      if (isPrefilling && flight?.link.flights.has(flight) === true) count++;
    }
    return count;
  }

  /** Throws unless each row's load is the sum of its bookings and the lists hold each booking once. */
  checkInvariants(rows: Iterable<WorkerRow>): void {
    const all = [...rows];
    checkBookings(this.#byId, this.#oldest, all, this.#columns);
    if (this.#byId.size > 0 || all.some(({ untold }) => untold.length > 0)) return;
    assert(this.#predicted.size === 0, 'blocks are held by bookings only');
  }

  #endPrefill(booking: Booking, nowMs: number): void {
    this.#leave(booking, nowMs);
    booking.isPrefilling = false;
    booking.flight?.land();
  }

  #unpredict(booking: Booking): void {
    if (!booking.isPredicted) return;
    booking.isPredicted = false;
    this.#predicted.release(booking.row.slot, booking.hashes, booking.predictedFrom);
  }

  /** Takes its place in the line of those that wait for their first token. */
  #stand(booking: Booking, nowMs: number): void {
    const { row } = booking;
    const { prefills, prefillTokens, fetches } = this.#columns;
    if (booking.isFetched) {
      fetches[row.slot]! += 1;
      row.fetches.add(booking);
      return;
    }
    prefills[row.slot]! += 1;
    prefillTokens[row.slot]! += uncachedTokens(booking);
    row.prefills.add(booking);
    this.#writeHead(row, nowMs, row.prefills.oldest === booking);
  }

  #leave(booking: Booking, nowMs: number): void {
    const { row } = booking;
    const { prefills, prefillTokens, fetches } = this.#columns;
    if (booking.isFetched) {
      fetches[row.slot]! -= 1;
      row.fetches.remove(booking);
      return;
    }
    prefills[row.slot]! -= 1;
    prefillTokens[row.slot]! -= uncachedTokens(booking);
    const wasHead = row.prefills.oldest === booking;
    row.prefills.remove(booking);
    this.#writeHead(row, nowMs, wasHead);
  }

  /** After the sum of prefill tokens or the head of the line changed. A new head begins at `beginMs`. */
  #writeHead({ slot, prefills }: WorkerRow, beginMs: number, isNew: boolean): void {
    const { prefillTokens, waitingTokens, headEndsMs, msPerToken } = this.#columns;
    const head = prefills.oldest;
    const tokens = head === undefined ? 0 : uncachedTokens(head);
    waitingTokens[slot] = prefillTokens[slot]! - tokens;
    if (isNew) headEndsMs[slot] = head === undefined ? 0 : beginMs + tokens * msPerToken[slot]!;
  }
}
