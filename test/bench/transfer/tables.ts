import { quantile } from '../chat-client.ts';
import type { LoopbackResult, ShapedResult } from './cases.ts';
import type { Check } from './checks.ts';

type Row = readonly string[];

/** Rows as a Markdown table whose columns stand below each other. */
function table(head: Row, rows: readonly Row[]): string {
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((row) => row[at]!.length)));
  const line = (row: Row): string =>
    `| ${row.map((text, at) => text.padEnd(widths[at]!)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

const ms = (value: number): string => value.toFixed(0);

export function shapedTable(results: readonly ShapedResult[]): string {
  const head =
    'mode, tokens, at once, split, TTFT ms (least to most), MB each, transfer ms, predicted ms, link MB/s';
  const rows = results.map((result) => {
    const { transfer, ttftRangeMs: range } = result;
    return [
      result.mode,
      `${result.promptTokens}`,
      `${result.inFlight}`,
      `${result.splits} of ${result.requests}`,
      `${ms(result.ttftMs)} (${ms(range[0])} to ${ms(range[1])})`,
      transfer === undefined ? '' : (transfer.bytesEach / 1e6).toFixed(1),
      transfer === undefined ? '' : ms(quantile(transfer.msByRound, 0.5)),
      transfer === undefined ? '' : ms(quantile(transfer.predictedMaxMsByRound, 0.5)),
      transfer === undefined ? '' : (transfer.linkBytesPerMs / 1_000).toFixed(1),
    ];
  });
  return table(head.split(', '), rows);
}

export function loopbackTable(results: readonly LoopbackResult[]): string {
  const head =
    'mode, streams that run, split, TTFT ms, transfer ms, predicted ms, gap ms, longest gap ms';
  const rows = results.map((result) => [
    result.mode,
    `${result.running}`,
    `${result.splits} of ${result.requests}`,
    ms(result.ttftMs),
    result.transfer === undefined ? '' : ms(quantile(result.transfer.msByRound, 0.5)),
    result.transfer === undefined ? '' : ms(quantile(result.transfer.predictedMsByRound, 0.5)),
    result.itlMs === undefined ? '' : ms(result.itlMs),
    result.longestGapMs === undefined ? '' : ms(result.longestGapMs),
  ]);
  return table(head.split(', '), rows);
}

export function checksTable(checks: readonly Check[]): string {
  const rows = checks.map(({ what, wanted, found, isMet }) => [
    isMet ? 'met' : 'MISSED',
    what,
    found,
    wanted,
  ]);
  return table(['', 'what', 'found', 'wanted'], rows);
}
