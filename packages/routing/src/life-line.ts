import type { LifeEvent } from '@busbar/protocol';
import { type Booking, expectedOutput } from './booking.ts';
import type { BookingLedger } from './booking-ledger.ts';
import type { WorkerColumns } from './worker-columns.ts';
import type { WorkerRow } from './worker-row.ts';
import type { WorkerTable } from './worker-table.ts';

/** Computed tokens from which on a first token tells the prefill rate; below, fixed costs of a step prevail. */
const RATE_TOKENS = 256;

/** Follows placed requests by what frontends report, and learns from it. */
export class LifeLine {
  readonly #routerId: string;
  readonly #table: WorkerTable;
  readonly #ledger: BookingLedger;
  readonly #columns: WorkerColumns;

  constructor(routerId: string, table: WorkerTable, ledger: BookingLedger, columns: WorkerColumns) {
    this.#routerId = routerId;
    this.#table = table;
    this.#ledger = ledger;
    this.#columns = columns;
  }

  /** The worker that the event changed; undefined when nothing did. */
  onEvent(
    frontendId: string,
    event: LifeEvent,
    hashes: Uint32Array,
    nowMs: number,
  ): WorkerRow | undefined {
    if (event.kind === 'booked') return this.#onBooked(frontendId, event, hashes, nowMs);
    const booking = this.#ledger.get(event.decisionId);
    if (booking === undefined) return undefined;
    if (event.kind === 'firstToken') this.#onFirstToken(booking, event, nowMs);
    else this.#onEnded(booking, event, nowMs);
    return booking.row;
  }

  /** A booking of another router; our own was booked with the decision. */
  #onBooked(
    frontendId: string,
    event: Extract<LifeEvent, { kind: 'booked' }>,
    hashes: Uint32Array,
    nowMs: number,
  ): WorkerRow | undefined {
    const row = this.#table.get(event.workerId);
    if (row === undefined || event.routerId === this.#routerId) return undefined;
    const cachedTokens = Math.min(event.expectedCachedTokens, event.promptTokens - 1);
    const booking = this.#ledger.add({
      decisionId: event.decisionId,
      routerId: event.routerId,
      frontendId,
      row,
      hashes,
      promptTokens: event.promptTokens,
      cachedTokens,
      seenTokens: cachedTokens,
      outputTokens: expectedOutput(event.maxTokens),
      predictedFrom: 0,
      bookedMs: nowMs,
    });
    if (booking === undefined) return undefined;
    row.use(hashes, nowMs);
    return row;
  }

  #onFirstToken(
    booking: Booking,
    event: Extract<LifeEvent, { kind: 'firstToken' }>,
    nowMs: number,
  ): void {
    const { row } = booking;
    if (!booking.isPrefilling) return;
    const wasAlone = row.oldestPrefill === booking && this.#columns.requests[row.slot] === 1;
    this.#ledger.firstToken(booking, nowMs);
    // What other routers expected may rest on their predictions; only our own sight is judged.
    if (booking.routerId === this.#routerId) {
      row.truth.onReported(booking.seenTokens, event.cachedTokens);
    }
    const cachedBlocks = Math.floor(event.cachedTokens / row.info.blockSize);
    // Engines always compute the last token, and with it again a block that is whole and cached already.
    const mustStore = Math.floor((booking.promptTokens - 1) / row.info.blockSize) - cachedBlocks;
    row.truth.onPrefill(mustStore, booking.bookedMs, nowMs);
    row.guess(booking.hashes, 0, nowMs);
    const computed = booking.promptTokens - event.cachedTokens;
    const isReporting = row.load !== undefined && row.load.prefillTokensPerMs > 0;
    if (wasAlone && !isReporting && computed >= RATE_TOKENS) {
      row.learnPrefillRate(computed / event.ttftMs);
    }
  }

  #onEnded(booking: Booking, event: Extract<LifeEvent, { kind: 'ended' }>, nowMs: number): void {
    const { row } = booking;
    const hasRun = !booking.isPrefilling || event.outcome === 'completed';
    this.#ledger.remove(booking, nowMs);
    if (!hasRun) return;
    row.learnServiceMs(nowMs - booking.bookedMs);
    const whole = Math.floor((booking.promptTokens + event.outputTokens) / row.info.blockSize);
    row.guess(booking.hashes, whole - (booking.hashes.length >> 1), nowMs);
  }
}
