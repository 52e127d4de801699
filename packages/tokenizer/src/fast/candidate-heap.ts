/** A binary min-heap of numbers with a fixed place in memory that grows on demand. Order of equal keys: unspecified. */
export class CandidateHeap {
  #keys = new Float64Array(256);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  clear(): void {
    this.#size = 0;
  }

  /** Appends without restoring the order; call `order` before the first `pop`. */
  append(key: number): void {
    this.#reserve();
    this.#keys[this.#size++] = key;
  }

  /** Makes a heap of what was appended, in linear time. */
  order(): void {
    for (let i = (this.#size >>> 1) - 1; i >= 0; i--) this.#siftDown(i, this.#keys[i]!);
  }

  push(key: number): void {
    this.#reserve();
    const keys = this.#keys;
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >>> 1;
      if (keys[parent]! <= key) break;
      keys[at] = keys[parent]!;
      at = parent;
    }
    keys[at] = key;
  }

  /** Removes and returns the smallest key. Only while `size` is above 0. */
  pop(): number {
    const top = this.#keys[0]!;
    const last = this.#keys[--this.#size]!;
    if (this.#size > 0) this.#siftDown(0, last);
    return top;
  }

  #siftDown(start: number, key: number): void {
    const keys = this.#keys;
    const size = this.#size;
    let at = start;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && keys[child + 1]! < keys[child]!) child++;
      if (keys[child]! >= key) break;
      keys[at] = keys[child]!;
      at = child;
    }
    keys[at] = key;
  }

  #reserve(): void {
    if (this.#size < this.#keys.length) return;
    const grown = new Float64Array(this.#keys.length * 2);
    grown.set(this.#keys);
    this.#keys = grown;
  }

  /** Gives memory above `keys` keys back after an unusually long piece. */
  shrink(keys: number): void {
    if (this.#keys.length > keys) this.#keys = new Float64Array(keys);
    this.#size = 0;
  }
}
