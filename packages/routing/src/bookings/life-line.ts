import type { LifeEvent } from '@busbar/protocol';
import type { Legs } from '../split/legs.ts';
import type { RouterEffect } from '../types.ts';
import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import type { WorkerTable } from '../workers/worker-table.ts';
import { type Booking, expectedOutput } from './booking.ts';
import type { BookingLedger } from './booking-ledger.ts';

type Booked = Extract<LifeEvent, { kind: 'booked' }>;
type FirstToken = Extract<LifeEvent, { kind: 'firstToken' }>;
type Ended = Extract<LifeEvent, { kind: 'ended' }>;

/** Computed tokens from which on a first token tells the prefill rate; below, fixed costs of a step prevail. */
const RATE_TOKENS = 256;

/** Follows placed requests by what frontends report, and learns from it. */
export class LifeLine {
  readonly #routerId: string;
  readonly #table: WorkerTable;
  readonly #ledger: BookingLedger;
  readonly #columns: WorkerColumns;
  readonly #legs: Legs;

  constructor(
    routerId: string,
    table: WorkerTable,
    ledger: BookingLedger,
    columns: WorkerColumns,
    legs: Legs,
  ) {
    this.#routerId = routerId;
    this.#table = table;
    this.#ledger = ledger;
    this.#columns = columns;
    this.#legs = legs;
  }

  /** The worker that the event changed; undefined when nothing did. */
  onEvent(
    frontendId: string,
    event: LifeEvent,
    hashes: Uint32Array,
    nowMs: number,
    effects: RouterEffect[],
  ): WorkerRow | undefined {
    if (event.kind === 'booked') return this.#onBooked(frontendId, event, hashes, nowMs);
    const booking = this.#ledger.get(event.decisionId);
    if (booking === undefined) return undefined;
    if (event.kind === 'firstToken') this.#onFirstToken(booking, event, nowMs, effects);
    else this.#onEnded(booking, event, nowMs);
    return booking.row;
  }

  /** A booking of another router; our own was booked with the decision. */
  #onBooked(
    frontendId: string,
    event: Booked,
    hashes: Uint32Array,
    nowMs: number,
  ): WorkerRow | undefined {
    const row = this.#table.get(event.workerId);
    if (row === undefined || event.routerId === this.#routerId) return undefined;
    const residentTokens = Math.min(event.expectedCachedTokens, event.promptTokens - 1);
    const isFetched = event.isFetched === true;
    const booking = this.#ledger.add({
      decisionId: event.decisionId,
      routerId: event.routerId,
      frontendId,
      ask: event.ask,
      row,
      hashes,
      promptTokens: event.promptTokens,
      cachedTokens: isFetched ? event.promptTokens - 1 : residentTokens,
      residentTokens,
      isFetched,
      flight: undefined,
      seenTokens: residentTokens,
      outputTokens: expectedOutput(event.maxTokens),
      predictedFrom: 0,
      bookedMs: nowMs,
    });
    if (booking === undefined) return undefined;
    const keeper = event.kvAt === undefined ? undefined : this.#table.get(event.kvAt);
    if (isFetched && keeper !== undefined) this.#legs.onForeignStaged(booking, keeper, nowMs);
    else this.#legs.onForeign(booking);
    row.use(hashes, nowMs);
    return row;
  }

  #onFirstToken(booking: Booking, event: FirstToken, nowMs: number, effects: RouterEffect[]): void {
    const { row } = booking;
    if (!booking.isPrefilling) return;
    const wasAlone = row.prefills.oldest === booking && this.#columns.requests[row.slot] === 1;
    if (booking.isFetched) this.#legs.onFetched(booking, this.#routerId, nowMs, effects);
    else if (row.info.role === 'prefill') this.#legs.onPrefilled(booking, nowMs);
    this.#ledger.firstToken(booking, nowMs);
    row.guess(booking.hashes, 0, nowMs);
    this.#onReported(booking, event.cachedTokens, nowMs);
    const computed = booking.promptTokens - (event.cachedTokens ?? booking.cachedTokens);
    const isReporting = row.load !== undefined && row.load.prefillTokensPerMs > 0;
    if (wasAlone && !isReporting && computed >= RATE_TOKENS) {
      row.learnPrefillRate(computed / event.ttftMs, computed);
    }
  }

  /** What an engine says of the cache it found. Of KV that was fetched it says nothing about its own. */
  #onReported(booking: Booking, cachedTokens: number | undefined, nowMs: number): void {
    if (cachedTokens === undefined || booking.isFetched) return;
    const { row } = booking;
    // What other routers expected may rest on their predictions; only our own sight is judged.
    if (booking.routerId === this.#routerId) {
      row.truth.onReported(booking.seenTokens, cachedTokens);
    }
    const cachedBlocks = Math.floor(cachedTokens / row.info.blockSize);
    // Engines always compute the last token, and with it again a block that is whole and cached already.
    const mustStore = Math.floor((booking.promptTokens - 1) / row.info.blockSize) - cachedBlocks;
    row.truth.onPrefill(mustStore, booking.bookedMs, nowMs);
  }

  #onEnded(booking: Booking, event: Ended, nowMs: number): void {
    const { row } = booking;
    const hasRun = !booking.isPrefilling || event.outcome === 'completed';
    if (row.info.role === 'prefill') {
      if (event.outcome === 'failed') this.#legs.onFailed(booking, nowMs);
      else if (event.outcome === 'rejected') this.#legs.onRefused(booking, nowMs);
      else if (event.outcome === 'completed') this.#legs.onPrefilled(booking, nowMs);
    }
    this.#ledger.remove(booking, nowMs);
    if (!hasRun) return;
    this.#onReported(booking, event.cachedTokens, nowMs);
    row.learnServiceMs(nowMs - booking.bookedMs);
    const whole = Math.floor((booking.promptTokens + event.outputTokens) / row.info.blockSize);
    row.guess(booking.hashes, whole - (booking.hashes.length >> 1), nowMs);
  }
}
