import type { RateSource } from '../types.ts';

/** What a decision is explained with. */
export interface SplitFigures {
  prefillWorkerId: string;
  decodeWorkerId: string;
  totalMs: number;
  /** Undefined when the KV is there already. */
  prefillMs: number | undefined;
  transferMs: number;
  bytes: number;
  bytesPerMs: number;
  source: RateSource;
  localWorkerId: string;
  localTotalMs: number;
  localPrefillMs: number;
  interferenceMs: number;
}

/** `transfer of 351 MB at 117 kB/ms takes 3.0 s, local prefill 172 ms`, with both sums. */
export function compareInWords(figures: SplitFigures): string {
  const { bytes, bytesPerMs, source, prefillMs, interferenceMs } = figures;
  const rate = `${bytesInWords(bytesPerMs)}/ms${source === 'assumed' ? ' (assumed)' : ''}`;
  const transfer = `transfer of ${bytesInWords(bytes)} at ${rate} takes ${timeInWords(figures.transferMs)}`;
  const delay = interferenceMs >= 1 ? ` and delays others by ${timeInWords(interferenceMs)}` : '';
  return (
    `${transfer} ${prefillMs === undefined ? 'and no prefill is left' : `after a prefill of ${timeInWords(prefillMs)}`}, ` +
    `${timeInWords(figures.totalMs)} in all over ${figures.prefillWorkerId} and ${figures.decodeWorkerId}; ` +
    `local prefill takes ${timeInWords(figures.localPrefillMs)}${delay}, ` +
    `${timeInWords(figures.localTotalMs)} in all at ${figures.localWorkerId}`
  );
}

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

function bytesInWords(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${digits(value)} ${BYTE_UNITS[unit]!}`;
}

function timeInWords(ms: number): string {
  return ms < 999.5 ? `${digits(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function digits(value: number): string {
  return value < 10 && value % 1 !== 0 ? value.toFixed(1) : value.toFixed(0);
}
