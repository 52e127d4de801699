import type { PairView, PolicyName, WorkerView } from '@busbar/routing';
import type { Check } from '@busbar/service';
import type { RouterServiceConfig } from './config.ts';

/** Policies whose choice depends on what KV events say. */
const EVENT_POLICIES: ReadonlySet<PolicyName> = new Set(['predictive', 'kv']);

/** A running router is ready; workers whose cache it cannot follow make it degraded, each with its reason. */
export function routerChecks(
  config: RouterServiceConfig,
  workers: readonly WorkerView[],
  pairs: readonly PairView[],
): Check[] {
  const { policy } = config;
  const checks: Check[] = [
    workers.length === 0
      ? { name: 'workers', ok: true, isDegraded: true, detail: 'no worker is registered' }
      : { name: 'workers', ok: true, detail: `${workers.length} registered` },
    ...modelsOf(workers).flatMap((model) => roleChecks(config, model, workers, pairs)),
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

function modelsOf(workers: readonly WorkerView[]): string[] {
  return [...new Set(workers.map(({ model }) => model))];
}

/** Whether both roles of the model are there and fit each other. */
function roleChecks(
  { disaggregation: mode, disaggregationStrict: isStrict }: RouterServiceConfig,
  model: string,
  workers: readonly WorkerView[],
  pairs: readonly PairView[],
): Check[] {
  const name = `roles of ${model}`;
  const warn = (detail: string): Check[] => [{ name, ok: true, isDegraded: true, detail }];
  const has = (role: WorkerView['role']): boolean =>
    workers.some((view) => view.model === model && view.role === role);
  if (!has('decode')) return warn('no decode worker is registered: nobody serves the model');
  if (!has('prefill')) {
    if (mode !== 'always' && mode !== 'threshold') return [];
    const then = isStrict ? 'requests that must be split are refused' : 'requests are served whole';
    return warn(`no prefill worker is registered, so ${then} (mode ${mode})`);
  }
  const own = pairs.filter((pair) => pair.model === model);
  const refused = own.filter(({ refusal }) => refusal !== undefined);
  const text = `${own.length - refused.length} of ${own.length} pairs can exchange KV`;
  const [first] = refused;
  if (first === undefined) return [{ name, ok: true, detail: text }];
  const names = `${first.prefillWorkerId} and ${first.decodeWorkerId}`;
  const detail = `${text}; ${names} cannot: ${first.refusal ?? ''}`;
  return refused.length === own.length ? warn(detail) : [{ name, ok: true, detail }];
}
