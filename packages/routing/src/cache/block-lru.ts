const NONE = -1;
const FIRST_SIZE = 64;

/**
 * Blocks in order of their last use, at most `capacity` of them. A block is a 64-bit hash in two words; a node is a small
 * integer that stays valid until the block is dropped. All operations are O(1); memory is typed arrays of 33 bytes a block
 * that grow by doubling.
 */
export class BlockLru {
  readonly capacity: number;
  size = 0;
  /** Least recently used node, -1 when empty. */
  oldest = NONE;
  #newest = NONE;
  #freeHead = NONE;
  #allocated = 0;
  #low = new Uint32Array(0);
  #high = new Uint32Array(0);
  #newer = new Int32Array(0);
  #older = new Int32Array(0);
  #usedMs = new Float64Array(0);
  #uses = new Uint8Array(0);
  #table = new Int32Array(0);

  constructor(capacity: number) {
    this.capacity = Math.max(1, capacity);
    this.#grow();
  }

  lowOf(node: number): number {
    return this.#low[node]!;
  }

  highOf(node: number): number {
    return this.#high[node]!;
  }

  /** The next more recently used node, -1 at the end. */
  newerOf(node: number): number {
    return this.#newer[node]!;
  }

  usedMsOf(node: number): number {
    return this.#usedMs[node]!;
  }

  /** How often the block was used since it came in, 255 at most. */
  usesOf(node: number): number {
    return this.#uses[node]!;
  }

  /** The node of a block or -1. */
  find(low: number, high: number): number {
    const mask = this.#table.length - 1;
    for (let at = low & mask; ; at = (at + 1) & mask) {
      const node = this.#table[at]! - 1;
      if (node < 0) return NONE;
      if (this.#low[node] === low && this.#high[node] === high) return node;
    }
  }

  /** Makes a present block the most recently used. */
  touch(node: number, nowMs: number): void {
    this.#usedMs[node] = nowMs;
    if (this.#uses[node]! < 255) this.#uses[node] = this.#uses[node]! + 1;
    if (node === this.#newest) return;
    this.#unlink(node);
    this.#linkNewest(node);
  }

  /** Adds a block that is not present as the most recently used. The caller has made room. */
  insert(low: number, high: number, nowMs: number): number {
    let node = this.#freeHead;
    if (node === NONE) {
      if (this.#allocated === this.#low.length) this.#grow();
      node = this.#allocated++;
    } else {
      this.#freeHead = this.#newer[node]!;
    }
    this.#low[node] = low;
    this.#high[node] = high;
    this.#usedMs[node] = nowMs;
    this.#uses[node] = 1;
    this.#place(node);
    this.#linkNewest(node);
    this.size++;
    return node;
  }

  drop(node: number): void {
    this.#unplace(node);
    this.#unlink(node);
    this.#newer[node] = this.#freeHead;
    this.#freeHead = node;
    this.size--;
  }

  #linkNewest(node: number): void {
    this.#older[node] = this.#newest;
    this.#newer[node] = NONE;
    if (this.#newest === NONE) this.oldest = node;
    else this.#newer[this.#newest] = node;
    this.#newest = node;
  }

  #unlink(node: number): void {
    const older = this.#older[node]!;
    const newer = this.#newer[node]!;
    if (older === NONE) this.oldest = newer;
    else this.#newer[older] = newer;
    if (newer === NONE) this.#newest = older;
    else this.#older[newer] = older;
  }

  #place(node: number): void {
    const mask = this.#table.length - 1;
    let at = this.#low[node]! & mask;
    while (this.#table[at] !== 0) at = (at + 1) & mask;
    this.#table[at] = node + 1;
  }

  /** Removes a table entry and moves later ones of its run back, so that no tombstones pile up. */
  #unplace(node: number): void {
    const table = this.#table;
    const mask = table.length - 1;
    let hole = this.#low[node]! & mask;
    while (table[hole] !== node + 1) hole = (hole + 1) & mask;
    for (let at = (hole + 1) & mask; table[at] !== 0; at = (at + 1) & mask) {
      const home = this.#low[table[at]! - 1]! & mask;
      if (((at - home) & mask) >= ((at - hole) & mask)) {
        table[hole] = table[at]!;
        hole = at;
      }
    }
    table[hole] = 0;
  }

  #grow(): void {
    const size = Math.min(this.capacity, Math.max(FIRST_SIZE, this.#low.length * 2));
    this.#low = copyInto(new Uint32Array(size), this.#low);
    this.#high = copyInto(new Uint32Array(size), this.#high);
    this.#newer = copyInto(new Int32Array(size), this.#newer);
    this.#older = copyInto(new Int32Array(size), this.#older);
    this.#usedMs = copyInto(new Float64Array(size), this.#usedMs);
    this.#uses = copyInto(new Uint8Array(size), this.#uses);
    this.#table = new Int32Array(2 ** Math.ceil(Math.log2(size * 2)));
    for (let node = this.oldest; node !== NONE; node = this.#newer[node]!) this.#place(node);
  }
}

function copyInto<T extends { set(from: T): void }>(to: T, from: T): T {
  to.set(from);
  return to;
}
