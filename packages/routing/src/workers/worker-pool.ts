import { assert } from '@busbar/base';
import type { WorkerInfo } from '@busbar/protocol';
import { ReuseStats } from '../cache/reuse-stats.ts';
import type { WorkerRow } from './worker-row.ts';

/** The workers of one model and role, in the order of their names so that ties and runs repeat, and what they share. */
export class WorkerPool {
  readonly model: string;
  readonly role: WorkerInfo['role'];
  readonly reuse: ReuseStats;
  /** Slots of the rows, in the same order. */
  slots = new Int32Array(0);
  readonly #rows: WorkerRow[] = [];

  constructor(info: WorkerInfo) {
    this.model = info.model;
    this.role = info.role;
    this.reuse = new ReuseStats(info.prefillTokensPerMs);
  }

  get rows(): readonly WorkerRow[] {
    return this.#rows;
  }

  /** Block size of all workers, undefined when they differ or there are none. */
  get commonBlockSize(): number | undefined {
    return this.#commonBlockSize;
  }

  #commonBlockSize: number | undefined;

  add(row: WorkerRow): void {
    const at = this.#rows.findIndex((other) => other.workerId > row.workerId);
    this.#rows.splice(at < 0 ? this.#rows.length : at, 0, row);
    this.#refresh();
  }

  remove(row: WorkerRow): void {
    this.#rows.splice(this.#rows.indexOf(row), 1);
    this.#refresh();
  }

  checkInvariants(): void {
    this.#rows.forEach((row, at) => {
      const { model, role } = row.info;
      assert(model === this.model && role === this.role, `${row.workerId} is in its pool`);
      assert(this.slots[at] === row.slot, `${row.workerId} has its slot in the pool`);
      const before = this.#rows[at - 1];
      assert(before === undefined || before.workerId < row.workerId, 'rows are sorted by name');
    });
  }

  #refresh(): void {
    this.slots = Int32Array.from(this.#rows, (row) => row.slot);
    const sizes = new Set(this.#rows.map((row) => row.info.blockSize));
    this.#commonBlockSize = sizes.size === 1 ? [...sizes][0] : undefined;
  }
}
