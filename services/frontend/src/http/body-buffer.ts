/**
 * Gathers a body that comes in pieces of any size. Pieces are copied together, since each small one costs many times
 * its bytes when it is kept: a body sent byte by byte would take several hundred times its size.
 */
export class BodyBuffer {
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;

  append(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (this.#length === 0) {
      // Most bodies come in one piece, which needs no copy.
      this.#bytes = piece;
    } else {
      if (length > this.#bytes.length) this.#grow(length);
      piece.copy(this.#bytes, this.#length);
    }
    this.#length = length;
  }

  /** What has come so far; valid until the next `append`. */
  get whole(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
  }

  #grow(length: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(length, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
