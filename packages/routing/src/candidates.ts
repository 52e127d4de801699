import type { WorkerColumns } from './worker-columns.ts';
import type { WorkerRow } from './worker-row.ts';

/** What the placement of one request depends on. */
export interface Placement {
  hashes: Uint32Array;
  /** Full blocks of the prompt. */
  blocks: number;
  promptTokens: number;
  maxTokens: number;
  nowMs: number;
}

/** The workers that may take a request, as columns. One object, reused for every decision. */
export class Candidates {
  /** All workers, indexed by slot. */
  readonly workers: WorkerColumns;
  count = 0;
  rows: WorkerRow[] = [];
  slots = new Int32Array(16);
  /** Leading blocks on the device, as far as known. */
  seenBlocks = new Uint32Array(16);
  /** The same with those that placed requests will have left there. */
  overlapBlocks = new Uint32Array(16);
  /** Leading blocks on the device or a lower tier; never less than `overlapBlocks`. */
  tieredBlocks = new Uint32Array(16);
  /** Prompt tokens to compute. */
  uncachedTokens = new Float64Array(16);
  cost = new Float64Array(16);

  constructor(workers: WorkerColumns) {
    this.workers = workers;
  }

  reset(): void {
    this.count = 0;
  }

  add(row: WorkerRow): void {
    if (this.count === this.cost.length) this.#grow();
    this.slots[this.count] = row.slot;
    this.rows[this.count++] = row;
  }

  /** Lets go of the rows, so that a worker that left is not kept in memory. */
  forget(): void {
    this.count = 0;
    this.rows = [];
  }

  /** Only the slots outlive growth: the other columns are filled after the last `add`. */
  #grow(): void {
    const size = this.cost.length * 2;
    const slots = new Int32Array(size);
    slots.set(this.slots);
    this.slots = slots;
    this.seenBlocks = new Uint32Array(size);
    this.overlapBlocks = new Uint32Array(size);
    this.tieredBlocks = new Uint32Array(size);
    this.uncachedTokens = new Float64Array(size);
    this.cost = new Float64Array(size);
  }
}
