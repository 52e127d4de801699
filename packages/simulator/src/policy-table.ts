import type { PolicyName } from '@busbar/routing';
import type { RunSummary } from './summary.ts';

/** How far from the best policy still counts as good: 5 %. */
const TOLERANCE = 0.05;

/**
 * Markdown tables that compare policies: one of p95 TTFT, one of throughput, one of hits. A row for each workload, a column for each
 * policy, the best value bold, values within 5 % of it marked.
 */
export function renderPolicyTable(runs: readonly RunSummary[]): string {
  const withRepeats = runs.filter((run) => run.repeats > 0);
  return [
    '### Time to the first token, p95, in ms (lower is better)',
    '',
    table(
      runs,
      (run) => run.ttftMs.p95,
      'lowest',
      (value) => value.toFixed(0),
    ),
    '',
    '### Output tokens a second (higher is better)',
    '',
    table(
      runs,
      (run) => run.outputTokensPerSec,
      'highest',
      (value) => value.toFixed(0),
    ),
    '',
    '### Repeated prompts that were at least half cached, in % (higher is better)',
    '',
    table(
      withRepeats,
      (run) => (100 * run.hits) / run.repeats,
      'highest',
      (value) => value.toFixed(1),
    ),
    '',
    '**Bold** is the best of a row, *italic* is within 5 % of it.',
  ].join('\n');
}

/** Workloads on which a policy's p95 TTFT or throughput is more than 5 % behind the best policy, as sentences. */
export function shortfalls(runs: readonly RunSummary[], policy: PolicyName): string[] {
  const lines: string[] = [];
  for (const [workload, row] of byWorkload(runs)) {
    const own = row.find((run) => run.policy === policy);
    if (own === undefined) continue;
    const ttft = Math.min(...row.map((run) => run.ttftMs.p95));
    const rate = Math.max(...row.map((run) => run.outputTokensPerSec));
    if (own.ttftMs.p95 > ttft * (1 + TOLERANCE)) {
      lines.push(`${workload}: p95 TTFT ${own.ttftMs.p95.toFixed(1)} ms, best ${ttft.toFixed(1)}`);
    }
    if (own.outputTokensPerSec < rate * (1 - TOLERANCE)) {
      lines.push(
        `${workload}: ${own.outputTokensPerSec.toFixed(0)} tok/s, best ${rate.toFixed(0)}`,
      );
    }
  }
  return lines;
}

function table(
  runs: readonly RunSummary[],
  value: (run: RunSummary) => number,
  best: 'lowest' | 'highest',
  format: (value: number) => string,
): string {
  const policies = [...new Set(runs.map((run) => run.policy))];
  const lines = [
    `| workload | ${policies.join(' | ')} |`,
    `|---|${'---:|'.repeat(policies.length)}`,
  ];
  for (const [workload, row] of byWorkload(runs)) {
    const values = row.map(value);
    const top = best === 'lowest' ? Math.min(...values) : Math.max(...values);
    const cells = policies.map((policy) => {
      const run = row.find((other) => other.policy === policy);
      if (run === undefined) return '';
      const own = value(run);
      if (own === top) return `**${format(own)}**`;
      const isNear = Math.abs(own - top) <= Math.abs(top) * TOLERANCE;
      return isNear ? `*${format(own)}*` : format(own);
    });
    lines.push(`| ${workload} | ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}

function byWorkload(runs: readonly RunSummary[]): Map<string, RunSummary[]> {
  return Map.groupBy(runs, (run) => run.workload);
}
