import { assert } from '@busbar/base';
import type { WorkerInfo } from '@busbar/protocol';
import { SlotPool } from './slot-pool.ts';
import { WorkerPool } from './worker-pool.ts';
import type { WorkerRow } from './worker-row.ts';

/** Every worker of the router: by name, by slot, and in the pool of its model and role. */
export class WorkerTable {
  readonly slots = new SlotPool();
  /** Rows by slot; the places of free slots are empty. */
  readonly bySlot: (WorkerRow | undefined)[] = [];
  readonly #byId = new Map<string, WorkerRow>();
  /** Workers that serve requests, by model, and those that only prefill for them. */
  readonly #decode = new Map<string, WorkerPool>();
  readonly #prefill = new Map<string, WorkerPool>();

  get(workerId: string): WorkerRow | undefined {
    return this.#byId.get(workerId);
  }

  /** Workers that serve requests of one model; undefined when nobody does. */
  pool(model: string): WorkerPool | undefined {
    return this.#decode.get(model);
  }

  /** Workers that prefill for those of `pool`; undefined when there are none. */
  prefillPool(model: string): WorkerPool | undefined {
    return this.#prefill.size === 0 ? undefined : this.#prefill.get(model);
  }

  /** Workers of the same model and the other role. */
  partnersOf(info: WorkerInfo): readonly WorkerRow[] {
    const pool = info.role === 'prefill' ? this.pool(info.model) : this.prefillPool(info.model);
    return pool?.rows ?? [];
  }

  /** The pool for a worker that is about to be added. */
  openPool(info: WorkerInfo): WorkerPool {
    const pools = this.#poolsOf(info);
    const known = pools.get(info.model);
    if (known !== undefined) return known;
    const pool = new WorkerPool(info);
    pools.set(info.model, pool);
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
    if (pool.rows.length === 0) this.#poolsOf(row.info).delete(pool.model);
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
    for (const pool of [...this.#decode.values(), ...this.#prefill.values()]) {
      pool.checkInvariants();
      listed += pool.rows.length;
    }
    for (const row of this.#byId.values()) {
      assert(this.bySlot[row.slot] === row, `${row.workerId} has a slot of its own`);
    }
    assert(listed === this.#byId.size, 'each worker is in one pool');
  }

  #poolsOf(info: WorkerInfo): Map<string, WorkerPool> {
    return info.role === 'prefill' ? this.#prefill : this.#decode;
  }
}
