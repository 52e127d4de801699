import type { Terminal } from '../terminal/terminal.ts';

export type Verdict = 'ok' | 'warn' | 'fail';

/** The result of one check: a short name, and one sentence that says what was seen. */
export interface Finding {
  group: string;
  name: string;
  verdict: Verdict;
  detail: string;
  /** What to do about it. Only with `warn` and `fail`. */
  advice?: string;
}

/** What `doctor --json` prints. */
export interface Diagnosis {
  ok: boolean;
  namespace: string;
  findings: Finding[];
}

export function diagnose(namespace: string, findings: Finding[]): Diagnosis {
  return { ok: findings.every((finding) => finding.verdict !== 'fail'), namespace, findings };
}

const MARKS: Record<Verdict, { mark: string; style: 'green' | 'yellow' | 'red' }> = {
  ok: { mark: '✓', style: 'green' },
  warn: { mark: '!', style: 'yellow' },
  fail: { mark: '✗', style: 'red' },
};

/** The findings as a tree, groups in the order of their first finding. */
export function renderDiagnosis(
  { findings }: Diagnosis,
  terminal: Pick<Terminal, 'paint'>,
): string[] {
  const lines: string[] = [];
  let group: string | undefined;
  for (const finding of findings) {
    if (finding.group !== group) {
      group = finding.group;
      lines.push(terminal.paint('bold', group));
    }
    const { mark, style } = MARKS[finding.verdict];
    lines.push(`  ${terminal.paint(style, mark)} ${finding.name}: ${finding.detail}`);
    if (finding.advice !== undefined) lines.push(`      → ${finding.advice}`);
  }
  const failed = findings.filter((finding) => finding.verdict === 'fail').length;
  const warned = findings.filter((finding) => finding.verdict === 'warn').length;
  const sum = `${findings.length} checks, ${failed} failed, ${warned} warned`;
  lines.push('', terminal.paint(failed > 0 ? 'red' : warned > 0 ? 'yellow' : 'green', sum));
  return lines;
}
