import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const TAIL_BYTES = 16_384;

/** The last lines of a log file, shortened; empty when there is no file. Reads the end of the file only. */
export function logTail(file: string, lines: number): string[] {
  let fd: number;
  try {
    fd = openSync(file, 'r');
  } catch {
    return [];
  }
  try {
    const size = fstatSync(fd).size;
    const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
    readSync(fd, buffer, 0, buffer.length, size - buffer.length);
    const all = buffer.toString('utf8').split('\n');
    return all
      .filter((line) => line.trim() !== '')
      .slice(-lines)
      .map((line) => (line.length > 400 ? `${line.slice(0, 400)}…` : line));
  } finally {
    closeSync(fd);
  }
}
