import { assert } from '@busbar/base';
import { BlockTable } from './block-table.ts';

const NONE = -1;

/**
 * The blocks of one KV cache. A block is active (referenced), cached (unreferenced, contents reusable) or free. Unreferenced blocks
 * wait in one queue in the order of their release; `take` reuses the oldest, which drops its contents. Several blocks may hold
 * equal contents (copies); the hash counts as gone when the last of them goes. All operations are O(1).
 */
export class BlockPool {
  readonly size: number;
  readonly #refs: Int32Array;
  readonly #low: Uint32Array;
  readonly #high: Uint32Array;
  /** Position in its sequence plus one; 0 while the block holds nothing reusable. */
  readonly #depth: Int32Array;
  /** Copies of one hash, a ring of block ids. */
  readonly #copyNext: Int32Array;
  readonly #copyPrevious: Int32Array;
  /** The queue of unreferenced blocks; index `size` is its sentinel. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #table: BlockTable;
  #queued = 0;
  /** Unreferenced blocks whose contents can be reused. */
  #cached = 0;

  constructor(size: number) {
    this.size = size;
    this.#refs = new Int32Array(size);
    this.#low = new Uint32Array(size);
    this.#high = new Uint32Array(size);
    this.#depth = new Int32Array(size);
    this.#copyNext = new Int32Array(size);
    this.#copyPrevious = new Int32Array(size);
    this.#next = new Int32Array(size + 1);
    this.#previous = new Int32Array(size + 1);
    this.#next[size] = size;
    this.#previous[size] = size;
    this.#table = new BlockTable(this.#low, this.#high);
    for (let block = 0; block < size; block++) this.#enqueue(block);
  }

  /** Blocks that `take` can hand out: free and cached ones. */
  get available(): number {
    return this.#queued;
  }

  get free(): number {
    return this.#queued - this.#cached;
  }

  get active(): number {
    return this.size - this.#queued;
  }

  refs(block: number): number {
    return this.#refs[block]!;
  }

  /** A block with these contents, or -1. */
  find(low: number, high: number): number {
    return this.#table.get(low, high);
  }

  /** Adds a reference; a cached block becomes active. */
  retain(block: number): void {
    if (this.#refs[block]!++ > 0) return;
    this.#unqueue(block);
  }

  /** Drops a reference; the last one puts the block at the end of the queue, its contents still reusable. */
  release(block: number): void {
    assert(this.#refs[block]! > 0, 'released block is referenced');
    if (--this.#refs[block]! === 0) this.#enqueue(block);
  }

  /**
   * Takes the block that was released longest ago, or answers -1. When that drops the last copy of its contents, the hash is appended to
   * `dropped`.
   */
  take(dropped: number[]): number {
    const block = this.#next[this.size]!;
    if (block === this.size) return NONE;
    this.#unqueue(block);
    this.#forget(block, dropped);
    this.#refs[block] = 1;
    return block;
  }

  /** Makes an active block reusable under this hash. Answers whether it is the only copy. */
  publish(block: number, low: number, high: number, position: number): boolean {
    assert(this.#refs[block]! > 0 && this.#depth[block] === 0, 'published block is new');
    this.#low[block] = low;
    this.#high[block] = high;
    this.#depth[block] = position + 1;
    const twin = this.#table.get(low, high);
    if (twin === NONE) {
      this.#copyNext[block] = block;
      this.#copyPrevious[block] = block;
      this.#table.set(block);
      return true;
    }
    const after = this.#copyNext[twin]!;
    this.#copyNext[twin] = block;
    this.#copyPrevious[block] = twin;
    this.#copyNext[block] = after;
    this.#copyPrevious[after] = block;
    return false;
  }

  /** Drops the contents of every cached block; the hashes that are gone are appended to `dropped`. */
  dropCached(dropped: number[]): void {
    for (let block = this.#next[this.size]!; block !== this.size; block = this.#next[block]!) {
      if (this.#depth[block] === 0) continue;
      this.#forget(block, dropped);
      this.#cached--;
    }
  }

  /** Calls `visit` once for each distinct hash. */
  eachHash(visit: (low: number, high: number, position: number) => void): void {
    for (const block of this.#table.values()) {
      visit(this.#low[block]!, this.#high[block]!, this.#depth[block]! - 1);
    }
  }

  /** Throws when queue, counters, table and references disagree. */
  checkInvariants(): void {
    let queued = 0;
    let cached = 0;
    for (let block = this.#next[this.size]!; block !== this.size; block = this.#next[block]!) {
      assert(this.#refs[block] === 0, 'queued block is unreferenced');
      assert(++queued <= this.size, 'free queue has no loop');
      if (this.#depth[block]! > 0) cached++;
    }
    assert(queued === this.#queued && cached === this.#cached, 'pool counters match the queue');
    let active = 0;
    let published = 0;
    for (let block = 0; block < this.size; block++) {
      if (this.#refs[block]! > 0) active++;
      if (this.#depth[block]! > 0) published++;
    }
    assert(active + queued === this.size, 'free + cached + active is the pool');
    let copies = 0;
    for (const first of this.#table.values()) {
      let copy = first;
      do {
        assert(this.#depth[copy]! > 0, 'a copy in the table is published');
        assert(this.#low[copy] === this.#low[first], 'copies share a hash');
        copies++;
        copy = this.#copyNext[copy]!;
      } while (copy !== first);
    }
    assert(copies === published, 'each published block is found by its hash');
  }

  #forget(block: number, dropped: number[]): void {
    if (this.#depth[block] === 0) return;
    this.#depth[block] = 0;
    const low = this.#low[block]!;
    const high = this.#high[block]!;
    const next = this.#copyNext[block]!;
    if (next === block) {
      this.#table.delete(low, high);
      dropped.push(low, high);
      return;
    }
    const previous = this.#copyPrevious[block]!;
    this.#copyNext[previous] = next;
    this.#copyPrevious[next] = previous;
    if (this.#table.get(low, high) === block) this.#table.set(next);
  }

  #enqueue(block: number): void {
    const last = this.#previous[this.size]!;
    this.#next[last] = block;
    this.#previous[block] = last;
    this.#next[block] = this.size;
    this.#previous[this.size] = block;
    this.#queued++;
    if (this.#depth[block]! > 0) this.#cached++;
  }

  #unqueue(block: number): void {
    const next = this.#next[block]!;
    const previous = this.#previous[block]!;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#queued--;
    if (this.#depth[block]! > 0) this.#cached--;
  }
}
