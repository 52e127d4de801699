import { assert } from '@busbar/base';
import type { WorkerInfo } from '@busbar/protocol';
import { SlotPool } from './slot-pool.ts';
import { WorkerPool } from './worker-pool.ts';
import type { WorkerRow } from './worker-row.ts';

/** Every worker of the router: by name, by slot, and in the pool of its model. */
export class WorkerTable {
  readonly slots = new SlotPool();
  /** Rows by slot; the places of free slots are empty. */
  readonly bySlot: (WorkerRow | undefined)[] = [];
  readonly #byId = new Map<string, WorkerRow>();
  readonly #pools = new Map<string, WorkerPool>();

  get(workerId: string): WorkerRow | undefined {
    return this.#byId.get(workerId);
  }

  /** Workers of one model; undefined when nobody serves it. */
  pool(model: string): WorkerPool | undefined {
    return this.#pools.get(model);
  }

  /** The pool for a worker that is about to be added. */
  openPool(info: WorkerInfo): WorkerPool {
    const known = this.#pools.get(info.model);
    if (known !== undefined) return known;
    const pool = new WorkerPool(info);
    this.#pools.set(info.model, pool);
    return pool;
  }

  /** Adds a row whose slot came from `slots`. */
  add(row: WorkerRow): void {
    assert(!this.#byId.has(row.workerId), `worker ${row.workerId} is already in the table`);
    this.#byId.set(row.workerId, row);
    this.bySlot[row.slot] = row;
    this.openPool(row.info).add(row);
  }

  /** Takes out a row that the caller has emptied. */
  remove(row: WorkerRow): void {
    const pool = this.openPool(row.info);
    pool.remove(row);
    if (pool.rows.length === 0) this.#pools.delete(pool.model);
    this.#byId.delete(row.workerId);
    this.bySlot[row.slot] = undefined;
    this.slots.release(row.slot);
  }

  /** All rows, sorted by name. */
  sorted(): WorkerRow[] {
    return [...this.#byId.values()].toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
  }

  /** All rows in the order in which they joined. */
  all(): Iterable<WorkerRow> {
    return this.#byId.values();
  }

  checkInvariants(): void {
    let listed = 0;
    for (const pool of this.#pools.values()) {
      pool.checkInvariants();
      listed += pool.rows.length;
    }
    for (const row of this.#byId.values()) {
      assert(this.bySlot[row.slot] === row, `${row.workerId} has a slot of its own`);
    }
    assert(listed === this.#byId.size, 'each worker is in one pool');
  }
}
