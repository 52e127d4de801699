import { apiUrl } from '../clients/http.ts';
import type { CliContext } from '../context.ts';
import { diagnose, renderDiagnosis } from '../doctor/finding.ts';
import { gatherFacts } from '../doctor/gather.ts';
import { judge } from '../doctor/judge.ts';
import { findTarget } from '../stack/target.ts';

export interface DoctorFlags {
  namespace?: string;
  url?: string;
  json?: boolean;
}

/** `busbar doctor`: looks for what makes a stack slow or wrong. Answers 1 when a check fails. */
export async function doctor(context: CliContext, flags: DoctorFlags): Promise<number> {
  const target = findTarget(context, flags.namespace);
  const facts = await gatherFacts({
    target,
    url: flags.url === undefined ? undefined : apiUrl(flags.url),
    env: context.env,
    signal: context.signal,
  });
  const diagnosis = diagnose(target.namespace, judge(facts));
  const { terminal } = context;
  if (flags.json === true) terminal.line(JSON.stringify(diagnosis, undefined, 2));
  else for (const line of renderDiagnosis(diagnosis, terminal)) terminal.line(line);
  return diagnosis.ok ? 0 : 1;
}
