import type { RunSummary } from './summary.ts';

/** A column of a table: its head, and what a row shows there. */
export interface Column<Run> {
  head: string;
  cell: (run: Run) => string;
}

const COLUMNS: readonly Column<RunSummary>[] = [
  { head: 'workload', cell: (run) => run.workload },
  { head: 'policy', cell: (run) => run.policy },
  { head: 'requests', cell: (run) => String(run.requests) },
  { head: 'hits', cell: (run) => (run.repeats === 0 ? '-' : `${run.hits}/${run.repeats}`) },
  { head: 'cached', cell: (run) => `${(run.cachedRatio * 100).toFixed(1)} %` },
  { head: 'ttft p50', cell: (run) => milliseconds(run.ttftMs.p50) },
  { head: 'p95', cell: (run) => milliseconds(run.ttftMs.p95) },
  { head: 'p99', cell: (run) => milliseconds(run.ttftMs.p99) },
  { head: 'tok/s', cell: (run) => run.outputTokensPerSec.toFixed(0) },
  { head: 'queue', cell: (run) => String(run.maxWaiting) },
  { head: 'not served', cell: (run) => String(run.rejected + run.failed) },
];

/** Figures of all runs as lines of text; a blank line parts the workloads. */
export function renderTable(runs: readonly RunSummary[]): string[] {
  return alignColumns(COLUMNS, runs, 2, (run) => run.workload);
}

/** Rows under their heads, the first `words` columns to the left and the others to the right; a blank line parts groups. */
export function alignColumns<Run>(
  columns: readonly Column<Run>[],
  runs: readonly Run[],
  words: number,
  groupOf: (run: Run) => string,
): string[] {
  const rows = runs.map((run) => columns.map((column) => column.cell(run)));
  const heads = columns.map((column) => column.head);
  const widths = heads.map((head, i) =>
    Math.max(head.length, ...rows.map((row) => row[i]!.length)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (i < words ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd();
  const lines = [line(heads), widths.map((width) => '-'.repeat(width)).join('  ')];
  rows.forEach((row, i) => {
    if (i > 0 && groupOf(runs[i]!) !== groupOf(runs[i - 1]!)) lines.push('');
    lines.push(line(row));
  });
  return lines;
}

export function milliseconds(value: number): string {
  return `${value.toFixed(value < 100 ? 1 : 0)} ms`;
}
