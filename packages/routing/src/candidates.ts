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

/** Columns of the workers that may take a request. One object, reused for every decision. */
export class Candidates {
  count = 0;
  rows: WorkerRow[] = [];
  /** Leading blocks on the device, as far as known. */
  seenBlocks = new Uint32Array(16);
  /** The same with those that placed requests will have left there. */
  overlapBlocks = new Uint32Array(16);
  /** Leading blocks on the device or a lower tier; never less than `overlapBlocks`. */
  tieredBlocks = new Uint32Array(16);
  /** Prompt tokens to compute. */
  uncachedTokens = new Float64Array(16);
  cost = new Float64Array(16);

  reset(): void {
    this.count = 0;
  }

  add(row: WorkerRow): void {
    if (this.count === this.cost.length) this.#grow();
    this.rows[this.count++] = row;
  }

  /** Lets go of rows of workers that left. */
  forget(): void {
    this.count = 0;
    this.rows = [];
  }

  #grow(): void {
    const size = this.cost.length * 2;
    this.seenBlocks = new Uint32Array(size);
    this.overlapBlocks = new Uint32Array(size);
    this.tieredBlocks = new Uint32Array(size);
    this.uncachedTokens = new Float64Array(size);
    this.cost = new Float64Array(size);
  }
}
