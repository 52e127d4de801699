import { assert } from '@busbar/base';
import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import { type Booking, kvTokens, uncachedTokens } from './booking.ts';

interface Sums {
  requests: number;
  tokens: number;
  kv: number;
  prefills: number;
  fetches: number;
}

/** Throws unless the list from `oldest` is that of all bookings, and each row's load and lines are those of its bookings. */
export function checkBookings(
  byId: ReadonlyMap<string, Booking>,
  oldest: Booking | undefined,
  rows: Iterable<WorkerRow>,
  columns: WorkerColumns,
): void {
  const sums = new Map<WorkerRow, Sums>();
  let listed = 0;
  for (let booking = oldest; booking !== undefined; booking = booking.newer) {
    listed++;
    assert(byId.get(booking.decisionId) === booking, 'booking is listed and not known');
    const sum = sums.get(booking.row) ?? noSums();
    sums.set(booking.row, sum);
    sum.requests++;
    sum.kv += kvTokens(booking);
    if (!booking.isPrefilling) continue;
    sum.tokens += uncachedTokens(booking);
    if (booking.isFetched) sum.fetches++;
    else sum.prefills++;
  }
  assert(listed === byId.size, 'every booking is in the list once');
  for (const row of rows) {
    checkRow(row, sums.get(row) ?? noSums(), columns);
    sums.delete(row);
  }
  assert(sums.size === 0, 'no booking is on a worker that left');
}

function checkRow(row: WorkerRow, sum: Sums, columns: WorkerColumns): void {
  const { slot, workerId } = row;
  const { requests, prefills, prefillTokens, freeTokens, capacityTokens, fetches } = columns;
  assert(requests[slot] === sum.requests, `${workerId}: requests are the sum of bookings`);
  assert(prefillTokens[slot] === sum.tokens, `${workerId}: prefill tokens are the sum`);
  const held = capacityTokens[slot]! - freeTokens[slot]!;
  assert(held === sum.kv, `${workerId}: tokens in the cache are the sum`);
  const { oldest } = row.prefills;
  const waiting =
    columns.waitingTokens[slot]! + (oldest === undefined ? 0 : uncachedTokens(oldest));
  assert(waiting === sum.tokens, `${workerId}: waiting tokens are the sum without the head`);
  assert(prefills[slot] === sum.prefills, `${workerId}: prefills are counted`);
  assert(fetches[slot] === sum.fetches, `${workerId}: fetches are counted`);
  assert(count(row, false) === sum.prefills, `${workerId}: its line holds its prefills`);
  assert(count(row, true) === sum.fetches, `${workerId}: its line holds its fetches`);
}

function count(row: WorkerRow, isFetched: boolean): number {
  let found = 0;
  for (const booking of isFetched ? row.fetches : row.prefills) {
    const isOwn = booking.row === row && booking.isPrefilling && booking.isFetched === isFetched;
    assert(isOwn, `${row.workerId}: its lines hold its own`);
    found++;
  }
  return found;
}

function noSums(): Sums {
  return { requests: 0, tokens: 0, kv: 0, prefills: 0, fetches: 0 };
}
