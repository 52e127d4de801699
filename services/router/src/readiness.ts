import type { PolicyName, WorkerView } from '@busbar/routing';
import type { Check } from '@busbar/service';

/** Policies whose choice depends on what KV events say. */
const EVENT_POLICIES: ReadonlySet<PolicyName> = new Set(['predictive', 'kv']);

/** A running router is ready; workers whose cache it cannot follow make it degraded, each with its reason. */
export function routerChecks(policy: PolicyName, workers: readonly WorkerView[]): Check[] {
  const checks: Check[] = [
    workers.length === 0
      ? { name: 'workers', ok: true, isDegraded: true, detail: 'no worker is registered' }
      : { name: 'workers', ok: true, detail: `${workers.length} registered` },
  ];
  for (const view of workers) {
    const name = `worker ${view.workerId}`;
    if (!view.isAvailable) {
      checks.push({
        name,
        ok: true,
        isDegraded: true,
        detail: 'cannot be chosen now: silent, draining or not synced',
      });
    } else if (EVENT_POLICIES.has(policy) && view.truth !== 'events') {
      checks.push({ name, ok: true, isDegraded: true, detail: `${view.truth}: ${view.reason}` });
    } else checks.push({ name, ok: true, detail: `${view.truth}: ${view.reason}` });
  }
  return checks;
}
