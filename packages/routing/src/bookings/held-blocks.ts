const FIRST_SIZE = 1024;
const SKETCH = 2 ** 16;

/**
 * Blocks that placed requests hold on their worker, counted, so that two requests for one prompt each hold it and the last
 * release drops it. Open addressing over (hash, worker slot); 14 bytes an entry, at most half of them in use.
 */
export class HeldBlocks {
  /** Distinct (block, worker) pairs. */
  size = 0;
  #low = new Uint32Array(FIRST_SIZE);
  #high = new Uint32Array(FIRST_SIZE);
  #slot = new Uint32Array(FIRST_SIZE);
  #count = new Uint16Array(FIRST_SIZE);
  #ofSlot: number[] = [];
  /** Entries by the low bits of their hash, whatever the worker: most questions are answered no without a look at the table. */
  #sketch = new Uint16Array(SKETCH);

  /** Distinct blocks held on one worker. */
  blocksOf(slot: number): number {
    return this.#ofSlot[slot] ?? 0;
  }

  /** Adds blocks `from` up to the end of a chain. Each call is undone by one `release` of the same range. */
  hold(slot: number, hashes: Uint32Array, from: number): void {
    const end = hashes.length >> 1;
    while ((this.size + end - from) * 2 > this.#count.length) this.#grow();
    let added = 0;
    for (let block = from; block < end; block++) {
      const low = hashes[block * 2]!;
      const high = hashes[block * 2 + 1]!;
      const at = this.#find(slot, low, high);
      if (this.#count[at] === 0) {
        this.#low[at] = low;
        this.#high[at] = high;
        this.#slot[at] = slot;
        this.#sketch[low % SKETCH] = this.#sketch[low % SKETCH]! + 1;
        added++;
      }
      this.#count[at] = this.#count[at]! + 1;
    }
    this.size += added;
    this.#ofSlot[slot] = this.blocksOf(slot) + added;
  }

  release(slot: number, hashes: Uint32Array, from: number): void {
    const end = hashes.length >> 1;
    let dropped = 0;
    for (let block = from; block < end; block++) {
      const at = this.#find(slot, hashes[block * 2]!, hashes[block * 2 + 1]!);
      if (this.#count[at] === 0) continue;
      this.#count[at] = this.#count[at]! - 1;
      if (this.#count[at] !== 0) continue;
      const sketched = hashes[block * 2]! % SKETCH;
      this.#sketch[sketched] = this.#sketch[sketched]! - 1;
      this.#close(at);
      dropped++;
    }
    this.size -= dropped;
    this.#ofSlot[slot] = this.blocksOf(slot) - dropped;
  }

  /**
   * Leading blocks of the chain that are known or held when `known` of them are known. Ancestors of a held
   * block are held or known, so one probe tells that nothing more is held and a binary search finds the end otherwise.
   */
  depth(slot: number, hashes: Uint32Array, known: number): number {
    const end = hashes.length >> 1;
    if (known >= end || !this.#has(slot, hashes, known)) return known;
    let held = known;
    let absent = end;
    while (absent - held > 1) {
      const middle = (held + absent) >> 1;
      if (this.#has(slot, hashes, middle)) held = middle;
      else absent = middle;
    }
    return held + 1;
  }

  /** True when no worker holds this block of the chain, false when one may. */
  isAbsent(hashes: Uint32Array, block: number): boolean {
    return block >= hashes.length >> 1 || this.#sketch[hashes[block * 2]! % SKETCH] === 0;
  }

  #has(slot: number, hashes: Uint32Array, block: number): boolean {
    if (this.#sketch[hashes[block * 2]! % SKETCH] === 0) return false;
    return this.#count[this.#find(slot, hashes[block * 2]!, hashes[block * 2 + 1]!)] !== 0;
  }

  /** Where the pair is, or the free place where it belongs. */
  #find(slot: number, low: number, high: number): number {
    const mask = this.#count.length - 1;
    let at = home(slot, low) & mask;
    while (
      this.#count[at] !== 0 &&
      (this.#low[at] !== low || this.#high[at] !== high || this.#slot[at] !== slot)
    ) {
      at = (at + 1) & mask;
    }
    return at;
  }

  #close(free: number): void {
    const mask = this.#count.length - 1;
    let hole = free;
    for (let at = (hole + 1) & mask; this.#count[at] !== 0; at = (at + 1) & mask) {
      const from = home(this.#slot[at]!, this.#low[at]!) & mask;
      if (((at - from) & mask) < ((at - hole) & mask)) continue;
      this.#low[hole] = this.#low[at]!;
      this.#high[hole] = this.#high[at]!;
      this.#slot[hole] = this.#slot[at]!;
      this.#count[hole] = this.#count[at]!;
      hole = at;
    }
    this.#count[hole] = 0;
  }

  #grow(): void {
    const [low, high, slot, count] = [this.#low, this.#high, this.#slot, this.#count];
    const size = count.length * 2;
    this.#low = new Uint32Array(size);
    this.#high = new Uint32Array(size);
    this.#slot = new Uint32Array(size);
    this.#count = new Uint16Array(size);
    for (let from = 0; from < count.length; from++) {
      if (count[from] === 0) continue;
      const at = this.#find(slot[from]!, low[from]!, high[from]!);
      this.#low[at] = low[from]!;
      this.#high[at] = high[from]!;
      this.#slot[at] = slot[from]!;
      this.#count[at] = count[from]!;
    }
  }
}

function home(slot: number, low: number): number {
  return low ^ Math.imul(slot + 1, 0x9e37_79b1);
}
