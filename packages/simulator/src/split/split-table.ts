import { alignColumns, type Column, milliseconds } from '../table.ts';
import type { SplitRun } from './compare-splits.ts';

const COLUMNS: readonly Column<SplitRun>[] = [
  { head: 'workload', cell: (run) => run.workload },
  { head: 'link', cell: (run) => `${run.linkGbit} Gbit/s` },
  { head: 'mode', cell: (run) => run.mode },
  { head: 'policy', cell: (run) => run.policy },
  { head: 'split', cell: ({ split }) => String(split.splits) },
  { head: 'whole', cell: ({ split }) => String(split.whole) },
  { head: 'ttft p50', cell: (run) => milliseconds(run.ttftMs.p50) },
  { head: 'p95', cell: (run) => milliseconds(run.ttftMs.p95) },
  { head: 'itl p50', cell: ({ split }) => milliseconds(split.itlMs.p50) },
  { head: 'p95', cell: ({ split }) => milliseconds(split.itlMs.p95) },
  { head: 'total', cell: ({ split }) => milliseconds(split.meanTotalMs) },
  { head: 'tok/s', cell: (run) => run.outputTokensPerSec.toFixed(0) },
  { head: 'moved', cell: ({ split }) => `${(split.bytesMoved / 1e9).toFixed(2)} GB` },
  { head: 'predicted', cell: ({ split }) => transferMs(split.predictedTransferMs) },
  { head: 'real', cell: ({ split }) => transferMs(split.observedTransferMs) },
  { head: 'not served', cell: (run) => String(run.rejected + run.failed) },
];
/** Columns of words stand to the left. */
const WORDS = 4;

/** Figures of runs with prefill workers as lines of text; a blank line parts workloads and links. */
export function renderSplitTable(runs: readonly SplitRun[]): string[] {
  const groupOf = (run: SplitRun): string => `${run.workload} ${run.linkGbit}`;
  return alignColumns(COLUMNS, runs, WORDS, groupOf);
}

/** The same as a Markdown table. */
export function renderSplitMarkdown(runs: readonly SplitRun[]): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [
    row(COLUMNS.map(({ head }) => head)),
    `|${COLUMNS.map((_, i) => (i < WORDS ? '---|' : '---:|')).join('')}`,
    ...runs.map((run) => row(COLUMNS.map(({ cell }) => cell(run)))),
  ].join('\n');
}

function transferMs(value: number): string {
  return value === 0 ? '-' : milliseconds(value);
}
