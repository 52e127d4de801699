/** Collects token ids in memory that is used again and again. */
export class IdBuffer {
  ids = new Uint32Array(4096);
  length = 0;

  /** Makes room for `count` more ids. */
  reserve(count: number): void {
    const needed = this.length + count;
    if (needed <= this.ids.length) return;
    const grown = new Uint32Array(2 ** Math.ceil(Math.log2(needed)));
    grown.set(this.ids.subarray(0, this.length));
    this.ids = grown;
  }

  push(id: number): void {
    this.reserve(1);
    this.ids[this.length++] = id;
  }

  append(ids: Uint32Array): void {
    this.reserve(ids.length);
    this.ids.set(ids, this.length);
    this.length += ids.length;
  }

  /** Appends the first `count` of `ids`, which are few. */
  appendFirst(ids: Int32Array, count: number): void {
    this.reserve(count);
    for (let i = 0; i < count; i++) this.ids[this.length + i] = ids[i]!;
    this.length += count;
  }

  /** A copy of what was collected; the buffer is empty afterwards and keeps at most 1 MiB. */
  take(): Uint32Array {
    const taken = this.ids.slice(0, this.length);
    this.length = 0;
    if (this.ids.length > 262_144) this.ids = new Uint32Array(4096);
    return taken;
  }
}
