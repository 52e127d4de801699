const LF = 10;
const CR = 13;
const COLON = 58;
const SPACE = 32;
const DATA = [100, 97, 116, 97] as const;
/** A line that never ends is no event stream. */
const MAX_LINE_BYTES = 16_777_216;

/**
 * Reads `text/event-stream` (WHATWG) out of network chunks that are cut anywhere: only CR, LF and CRLF end lines, bytes become
 * text when their line is whole, comments and fields other than `data` are ignored, and an event that no blank line ends is
 * dropped. Throws RangeError on a line of more than 16 MiB.
 */
export class SseReader {
  readonly #onData: (data: string) => void;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #data: string | undefined;
  #isAfterCr = false;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  push(chunk: Buffer): void {
    let at = 0;
    if (this.#isAfterCr && chunk.length > 0) {
      if (chunk[0] === LF) at = 1;
      this.#isAfterCr = false;
    }
    let cr = chunk.indexOf(CR, at);
    while (at < chunk.length) {
      const lf = chunk.indexOf(LF, at);
      if (cr !== -1 && cr < at) cr = chunk.indexOf(CR, at);
      const end = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
      if (end === -1) return this.#keep(chunk.subarray(at));
      this.#endLine(chunk, at, end);
      at = end + 1;
      if (end !== cr) continue;
      if (at === chunk.length) this.#isAfterCr = true;
      else if (chunk[at] === LF) at++;
    }
  }

  #keep(rest: Buffer): void {
    this.#partBytes += rest.length;
    if (this.#partBytes > MAX_LINE_BYTES) throw new RangeError('an event line is too long');
    this.#parts.push(rest);
  }

  #endLine(chunk: Buffer, from: number, to: number): void {
    if (this.#parts.length === 0) return this.#readLine(chunk, from, to);
    const line = Buffer.concat([...this.#parts, chunk.subarray(from, to)]);
    this.#parts = [];
    this.#partBytes = 0;
    this.#readLine(line, 0, line.length);
  }

  #readLine(bytes: Buffer, from: number, to: number): void {
    if (from === to) {
      const data = this.#data;
      this.#data = undefined;
      if (data !== undefined) this.#onData(data);
      return;
    }
    const nameEnd = from + DATA.length;
    if (nameEnd > to || DATA.some((byte, i) => bytes[from + i] !== byte)) return;
    let value = '';
    if (nameEnd < to) {
      if (bytes[nameEnd] !== COLON) return;
      const begin = bytes[nameEnd + 1] === SPACE ? nameEnd + 2 : nameEnd + 1;
      value = bytes.toString('utf8', Math.min(begin, to), to);
    }
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
  }
}
