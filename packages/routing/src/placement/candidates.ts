import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerRow } from '../workers/worker-row.ts';

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
  slots = new Int32Array(16);
  /** Leading blocks on the device, as far as known. */
  seenBlocks = new Int32Array(16);
  /** The same with those that placed requests will have left there. */
  overlapBlocks = new Int32Array(16);
  /** Leading blocks on the device or a lower tier; void unless `hasTiers`. */
  tieredBlocks = new Int32Array(16);
  /** Whether any candidate has more on a lower tier. */
  hasTiers = false;
  /** Prompt tokens to compute. */
  uncachedTokens = new Float64Array(16);
  cost = new Float64Array(16);
  readonly #bySlot: readonly (WorkerRow | undefined)[];

  constructor(workers: WorkerColumns, bySlot: readonly (WorkerRow | undefined)[]) {
    this.workers = workers;
    this.#bySlot = bySlot;
  }

  row(at: number): WorkerRow {
    return this.#bySlot[this.slots[at]!]!;
  }

  /** Makes room for `count` candidates; what the columns held is void. */
  reserve(count: number): void {
    if (count <= this.cost.length) return;
    const size = 2 ** Math.ceil(Math.log2(count));
    this.slots = new Int32Array(size);
    this.seenBlocks = new Int32Array(size);
    this.overlapBlocks = new Int32Array(size);
    this.tieredBlocks = new Int32Array(size);
    this.uncachedTokens = new Float64Array(size);
    this.cost = new Float64Array(size);
  }

  /** Becomes the candidates `chosen` of another set, in that order, without their costs. */
  select(from: Candidates, chosen: readonly number[]): void {
    this.reserve(chosen.length);
    this.count = chosen.length;
    this.hasTiers = from.hasTiers;
    for (let to = 0; to < chosen.length; to++) {
      const at = chosen[to]!;
      this.slots[to] = from.slots[at]!;
      this.seenBlocks[to] = from.seenBlocks[at]!;
      this.overlapBlocks[to] = from.overlapBlocks[at]!;
      this.tieredBlocks[to] = from.tieredBlocks[at]!;
      this.uncachedTokens[to] = from.uncachedTokens[at]!;
    }
  }
}
