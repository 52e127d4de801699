import { assert } from '@busbar/base';
import type { KvIndex } from '@busbar/kv-index';
import type { BookingLedger } from './bookings/booking-ledger.ts';
import type { WorkerView } from './types.ts';
import type { SlotPool } from './workers/slot-pool.ts';
import type { WorkerColumns } from './workers/worker-columns.ts';
import type { WorkerRow } from './workers/worker-row.ts';
import type { WorkerTable } from './workers/worker-table.ts';

/** What a router shows of a worker. */
export function viewOf(row: WorkerRow, columns: WorkerColumns, isAvailable: boolean): WorkerView {
  return {
    workerId: row.workerId,
    model: row.info.model,
    role: row.info.role,
    truth: row.truth.state,
    reason: row.truth.reason,
    isAvailable,
    indexedBlocks: row.indexedBlocks,
    wantedBlocks: row.workingSet.blocks,
    bookedRequests: columns.requests[row.slot]!,
    bookedPrefillTokens: columns.prefillTokens[row.slot]!,
    expectedCachedTokensTotal: row.truth.expectedTokensTotal,
    reportedCachedTokensTotal: row.truth.reportedTokensTotal,
  };
}

/** Throws when table, ledger and index do not agree. */
export function checkCore(
  table: WorkerTable,
  ledger: BookingLedger,
  index: KvIndex,
  owners: SlotPool,
): void {
  table.checkInvariants();
  ledger.checkInvariants(table.all());
  const owned = new Set<number>();
  for (const row of table.all()) {
    for (const owner of row.ownerIds) {
      assert(!owned.has(owner), `index owner ${owner} has one worker`);
      owned.add(owner);
    }
    const guessed = row.approximate;
    if (guessed !== undefined) {
      const indexed = index.blocksOf(guessed.owner);
      assert(indexed <= guessed.size, `${row.workerId}: guesses are bounded by their LRU`);
      assert(guessed.size <= row.capacityBlocks, `${row.workerId}: guesses fit the cache`);
    }
    const isEvents = row.truth.state === 'events';
    assert(
      isEvents || row.indexedBlocks === (guessed === undefined ? 0 : index.blocksOf(guessed.owner)),
      `${row.workerId}: events count only while they are believed`,
    );
  }
  for (let owner = 0; owner < owners.highWater; owner++) {
    assert(owned.has(owner) || index.blocksOf(owner) === 0, `owner ${owner} left nothing behind`);
  }
}
