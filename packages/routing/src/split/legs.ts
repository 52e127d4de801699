import type { Booking } from '../bookings/booking.ts';
import type { BookingLedger } from '../bookings/booking-ledger.ts';
import type { RouterEffect } from '../types.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import type { PairTable } from './pair-table.ts';

/** The prefill leg is named after the decode leg, so that every router knows that the two belong together. */
const PREFILL_SUFFIX = '.p';

export function prefillLegId(decisionId: string): string {
  return `${decisionId}${PREFILL_SUFFIX}`;
}

function decodeLegId(legId: string): string | undefined {
  return legId.endsWith(PREFILL_SUFFIX) ? legId.slice(0, -PREFILL_SUFFIX.length) : undefined;
}

/** KV that a fetch moves: what the decode worker does not hold, in whole blocks. */
export function transferBytes(
  prefill: WorkerRow,
  promptTokens: number,
  residentBlocks: number,
): number {
  const { blockSize, transfer } = prefill.info;
  const blocks = Math.ceil(promptTokens / blockSize) - residentBlocks;
  return Math.max(0, blocks) * blockSize * (transfer?.kvBytesPerToken ?? 0);
}

/** Follows the two bookings of split requests and the transfer between them. */
export class Legs {
  readonly #ledger: BookingLedger;
  readonly #pairs: PairTable;

  constructor(ledger: BookingLedger, pairs: PairTable) {
    this.#ledger = ledger;
    this.#pairs = pairs;
  }

  /** One leg that another router booked. Once both are known, so is their transfer. */
  onForeign(booking: Booking): void {
    const prefill = booking.isFetched
      ? this.#ledger.get(prefillLegId(booking.decisionId))
      : booking;
    const decode = booking.isFetched ? booking : this.#decodeLegOf(booking);
    if (prefill !== undefined && decode !== undefined) this.#fly(prefill.row, decode);
  }

  /** The only leg that another router booked: its worker fetches what `keeper` has prefilled already. */
  onForeignStaged(decode: Booking, keeper: WorkerRow, nowMs: number): void {
    this.#fly(keeper, decode);
    if (decode.flight !== undefined) decode.flight.readyMs = nowMs;
  }

  onPrefilled(prefill: Booking, nowMs: number): void {
    prefill.row.suspicion.succeed();
    const flight = this.#decodeLegOf(prefill)?.flight;
    if (flight !== undefined) flight.readyMs ??= nowMs;
  }

  /** Nothing will be fetched; the worker is left alone for a while. */
  onFailed(prefill: Booking, nowMs: number): void {
    prefill.row.suspicion.fail(nowMs);
    this.onRefused(prefill, nowMs);
  }

  /** Nothing will be fetched; a worker that was full, or leaves, is no worse for that. */
  onRefused(prefill: Booking, nowMs: number): void {
    const decode = this.#decodeLegOf(prefill);
    if (decode === undefined) return;
    decode.flight?.land();
    this.#ledger.giveUpFetch(decode, nowMs);
  }

  /** The decode worker has its first token. */
  onFetched(decode: Booking, routerId: string, nowMs: number, effects: RouterEffect[]): void {
    const { flight } = decode;
    if (decode.routerId !== routerId || flight?.readyMs === undefined) return;
    effects.push({
      kind: 'transferred',
      prefillWorkerId: flight.link.prefillWorkerId,
      decodeWorkerId: flight.link.decodeWorkerId,
      bytes: flight.bytes,
      predictedMs: flight.predictedMs,
      observedMs: nowMs - flight.readyMs,
    });
  }

  #fly(from: WorkerRow, decode: Booking): void {
    if (decode.flight !== undefined || !decode.isPrefilling) return;
    const pair = this.#pairs.find(from, decode.row);
    if (pair === undefined) return;
    const residentBlocks = Math.floor(decode.residentTokens / decode.row.info.blockSize);
    const bytes = transferBytes(from, decode.promptTokens, residentBlocks);
    decode.flight = pair.link.book(bytes, 0);
  }

  #decodeLegOf(prefill: Booking): Booking | undefined {
    const id = decodeLegId(prefill.decisionId);
    const booking = id === undefined ? undefined : this.#ledger.get(id);
    return booking?.isFetched === true ? booking : undefined;
  }
}
