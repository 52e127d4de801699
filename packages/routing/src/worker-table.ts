import { assert } from '@busbar/base';
import { SlotPool } from './slot-pool.ts';
import type { WorkerRow } from './worker-row.ts';

/** Every worker of the router, by name and by model, always in the order of their names so that runs repeat. */
export class WorkerTable {
  readonly slots = new SlotPool();
  readonly #byId = new Map<string, WorkerRow>();
  readonly #byModel = new Map<string, WorkerRow[]>();

  get size(): number {
    return this.#byId.size;
  }

  get(workerId: string): WorkerRow | undefined {
    return this.#byId.get(workerId);
  }

  /** Workers of one model, in order; empty when nobody serves it. */
  ofModel(model: string): readonly WorkerRow[] {
    return this.#byModel.get(model) ?? NOBODY;
  }

  add(row: WorkerRow): void {
    assert(!this.#byId.has(row.workerId), `worker ${row.workerId} is already in the table`);
    this.#byId.set(row.workerId, row);
    const rows = this.#byModel.get(row.info.model) ?? [];
    this.#byModel.set(row.info.model, rows);
    const at = rows.findIndex((other) => other.workerId > row.workerId);
    rows.splice(at < 0 ? rows.length : at, 0, row);
  }

  /** Takes the row out; the caller has emptied it. */
  remove(row: WorkerRow): void {
    this.#byId.delete(row.workerId);
    const rows = this.#byModel.get(row.info.model) ?? [];
    rows.splice(rows.indexOf(row), 1);
    if (rows.length === 0) this.#byModel.delete(row.info.model);
    this.slots.release(row.slot);
  }

  /** All rows, sorted by name. */
  rows(): WorkerRow[] {
    return [...this.#byId.values()].toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
  }

  /** All rows in no particular order, without a copy. */
  all(): Iterable<WorkerRow> {
    return this.#byId.values();
  }

  checkInvariants(): void {
    let listed = 0;
    const slots = new Set<number>();
    for (const [model, rows] of this.#byModel) {
      listed += rows.length;
      rows.forEach((row, at) => {
        assert(row.info.model === model, `${row.workerId} is under its model`);
        assert(this.#byId.get(row.workerId) === row, `${row.workerId} is known by name`);
        assert(at === 0 || rows[at - 1]!.workerId < row.workerId, `${model}: rows are sorted`);
        slots.add(row.slot);
      });
    }
    assert(listed === this.#byId.size && slots.size === listed, 'each worker has one row and slot');
  }
}

const NOBODY: readonly WorkerRow[] = [];
