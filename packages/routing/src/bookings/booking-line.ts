import type { Booking } from './booking.ts';

/** Bookings of one worker without a first token, oldest first. The links are fields of the bookings; each is in one line at most. */
export class BookingLine {
  oldest: Booking | undefined;
  #newest: Booking | undefined;

  /** Adds a booking as the newest. */
  add(booking: Booking): void {
    booking.olderInLine = this.#newest;
    if (this.#newest === undefined) this.oldest = booking;
    else this.#newest.newerInLine = booking;
    this.#newest = booking;
  }

  remove(booking: Booking): void {
    const { olderInLine: older, newerInLine: newer } = booking;
    if (newer === undefined) this.#newest = older;
    else newer.olderInLine = older;
    if (older === undefined) this.oldest = newer;
    else older.newerInLine = newer;
    booking.olderInLine = undefined;
    booking.newerInLine = undefined;
  }

  *[Symbol.iterator](): IterableIterator<Booking> {
    for (let at = this.oldest; at !== undefined; at = at.newerInLine) yield at;
  }
}
