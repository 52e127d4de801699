import { styleText } from 'node:util';

type Style = 'green' | 'yellow' | 'red' | 'dim' | 'bold' | 'cyan';

/** Where a command writes. Commands never touch `process.stdout`, so that tests read what a person would see. */
export interface Terminal {
  /** False for pipes and files: whole lines only, nothing is overwritten. */
  readonly isTty: boolean;
  line(text?: string): void;
  /** Without a line end, for streamed text. */
  write(text: string): void;
  errorLine(text: string): void;
  paint(style: Style, text: string): string;
}

interface Sink {
  write(text: string): unknown;
  isTTY?: boolean;
}

/** A terminal on two streams. Colours only on a TTY, without NO_COLOR and not on TERM=dumb. */
export function createTerminal(
  stdout: Sink,
  stderr: Sink,
  env: Readonly<Record<string, string | undefined>>,
): Terminal {
  const isTty = stdout.isTTY === true;
  const useColour = isTty && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  return {
    isTty,
    line: (text = '') => void stdout.write(`${text}\n`),
    write: (text) => void stdout.write(text),
    errorLine: (text) => void stderr.write(`${text}\n`),
    paint: (style, text) => (useColour ? styleText(style, text, { validateStream: false }) : text),
  };
}

/** A reader that has seen enough (`busbar up | head`) closes the pipe; what was begun goes on without it. */
export function outliveReader(stream: NodeJS.WriteStream): void {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

/** Left-aligned columns with two spaces between them; widths from the content. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/** `0.4 s`, `12.0 s`. */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** `14,816`. */
export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** `172 MB`, `1.4 GB`: powers of ten, as links are measured. */
export function bytes(value: number): string {
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  return value < 1e9
    ? `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)} MB`
    : `${(value / 1e9).toFixed(1)} GB`;
}

/** `0.94 Gbit/s` of bytes per millisecond. */
export function linkRate(bytesPerMs: number): string {
  const gigabits = (bytesPerMs * 8) / 1e6;
  return `${gigabits < 10 ? gigabits.toFixed(2) : count(Math.round(gigabits))} Gbit/s`;
}

/** `85 ms`, `3.4 s`. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1_000 ? `${Math.round(ms)} ms` : seconds(ms);
}
