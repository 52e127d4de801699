import { commandFor } from '../context.ts';
import { isAdminHidden } from '../stack/stack-view.ts';
import type { Facts } from './facts.ts';
import type { Finding, Verdict } from './finding.ts';

/** Whether each process runs, holds its lease and says that it is ready, and whether each role is there. */
export function judgeProcesses({ stack, cluster, readiness }: Facts): Finding[] {
  const group = 'processes';
  const services = stack.processes.filter((view) =>
    ['frontend', 'router', 'decode', 'prefill'].includes(view.role),
  );
  const findings: Finding[] = services.map((view) => {
    const finding = (verdict: Verdict, detail: string, advice?: string): Finding => ({
      group,
      name: view.id,
      verdict,
      detail,
      ...(advice === undefined ? {} : { advice }),
    });
    const log = view.logFile === undefined ? 'see its log' : `see ${view.logFile}`;
    if (view.state === 'exited') return finding('fail', `pid ${view.pid} has ended`, log);
    if (cluster !== undefined && !cluster.instances.has(view.id)) {
      return finding('fail', `pid ${view.pid} runs and holds no lease`, log);
    }
    if (isAdminHidden(view)) {
      return finding(
        'warn',
        `its lease on ${view.host} says ${view.state}; its admin port is on loopback there, so /ready was not asked`,
        `set BUSBAR_ADMIN_HOST on ${view.host} to an address that this machine reaches`,
      );
    }
    const body = readiness.get(view.id);
    if (body === undefined) return finding('fail', 'its admin port does not answer', log);
    const reasons = body.checks
      .filter((check) => (body.status === 'unready' ? !check.ok : check.isDegraded === true))
      .map((check) => `${check.name}: ${check.detail}`)
      .join('; ');
    if (body.status === 'unready') return finding('fail', `not ready: ${reasons}`, log);
    if (body.status === 'degraded') {
      return finding('warn', `degraded: ${reasons}`, 'see the checks below');
    }
    return finding('ok', `ready, lease held, pid ${view.pid}`);
  });
  for (const role of ['frontend', 'router', 'decode'] as const) {
    if (services.some((view) => view.role === role && view.state !== 'exited')) continue;
    findings.push({
      group,
      name: role,
      verdict: 'fail',
      detail: 'none runs in this namespace',
      advice: services.some((view) => view.isManaged)
        ? `start the stack again: "${commandFor(stack.namespace, 'busbar down')}", then "${commandFor(stack.namespace, 'busbar up')}"`
        : `run "${commandFor(stack.namespace, 'busbar up')}"`,
    });
  }
  return findings;
}
