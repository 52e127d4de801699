import { type HeldDecisions, limit } from '@busbar/protocol';
import type { AdmissionQueue } from '../placement/admission-queue.ts';
import { reject } from '../placement/rejection.ts';
import type { RouterEffect } from '../types.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import type { BookingLedger } from './booking-ledger.ts';

/** Age of a booking that an idle worker ought to know of. */
const FORGOTTEN_MS = limit('forgottenBookingMs');

/** Finds bookings that nobody will end, because a message about them was lost. */
export class LostBookings {
  readonly #ledger: BookingLedger;
  readonly #queue: AdmissionQueue;

  constructor(ledger: BookingLedger, queue: AdmissionQueue) {
    this.#ledger = ledger;
    this.#queue = queue;
  }

  /**
   * A frontend says what it holds of a range of its asks: what else is booked for them is held by nobody (see `HeldDecisions` for the
   * proof), and what still waits is waited for by nobody. Bookings without a number stay. True when something was dropped.
   */
  onHeld(
    frontendId: string,
    { from, before, decisionIds }: HeldDecisions,
    nowMs: number,
    effects: RouterEffect[],
  ): boolean {
    const isOver = (ask: number | undefined): boolean =>
      ask !== undefined && ask >= from && ask < before;
    for (const { event } of this.#queue.entries()) {
      if (event.request.frontendId !== frontendId || !isOver(event.request.ask)) continue;
      this.#queue.remove(event.key);
      effects.push(reject(event.key, 'ROUTER_DEADLINE', 'the asker waits no longer'));
    }
    const held = new Set(decisionIds);
    const bookings = this.#ledger.removeWhere(
      (booking) =>
        booking.frontendId === frontendId && isOver(booking.ask) && !held.has(booking.decisionId),
      nowMs,
    );
    if (bookings > 0) effects.push({ kind: 'unheld', frontendId, bookings });
    return bookings > 0;
  }

  /** A worker says that it has nothing: drops bookings of requests that never reached it. True when there were any. */
  onIdle(row: WorkerRow, nowMs: number): boolean {
    const beforeMs = nowMs - FORGOTTEN_MS;
    const { oldestMs } = this.#ledger;
    if (oldestMs === undefined || oldestMs > beforeMs) return false;
    return (
      this.#ledger.removeWhere(
        (booking) => booking.row === row && booking.bookedMs <= beforeMs,
        nowMs,
      ) > 0
    );
  }
}
