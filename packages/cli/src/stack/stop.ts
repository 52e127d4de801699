import { rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  type EngineGroup,
  endEngineGroups,
  engineGroupsOf,
  mergeGroups,
} from '../host/engine-groups.ts';
import { isAlive, listProcesses, signalGroup, signalProcess } from '../host/process-table.ts';
import { pause, until } from '../wait.ts';
import {
  readState,
  removeState,
  type StackProcess,
  type StackRole,
  type StackState,
  writeState,
} from './state.ts';

/** Who is asked to end together: nobody loses the ones it needs to finish its work. */
const WORKER_ROLES: readonly StackRole[] = ['decode', 'prefill'];
const SERVING_ROLES: readonly StackRole[] = ['frontend', 'router', ...WORKER_ROLES];
const STAGES: readonly (readonly StackRole[])[] = [
  ['frontend'],
  ['router', 'decode', 'prefill'],
  ['nats-server'],
  ['supervisor', 'guard'],
];

/** Beyond the drain time of a service, until it is killed. */
const DRAIN_SLACK_MS = 3_000;
/** A worker gives its engine 10 s from SIGTERM to SIGKILL, and then says goodbye itself. */
const ENGINE_SLACK_MS = 15_000;
/** From the signal that ends the drain to SIGKILL: running streams get their last events, engines end. */
const HURRY_MS = 2_000;
/** Two signals of one kind that come at once are one to the process that gets them. */
const SIGNAL_GAP_MS = 50;
const SERVER_STOP_MS = 5_000;
const POLL_MS = 25;

export interface StopReport {
  ended: StackProcess[];
  /** These did not end in time and were killed. */
  killed: StackProcess[];
  /** Process groups of engines whose worker had died before it could end them. */
  leftovers: EngineGroup[];
}

/**
 * Ends every process of a stack in order, by SIGTERM and, after a bound, SIGKILL to the whole process group. Removes its
 * state and the files of its nats-server; logs stay. `hurry` fires to cut the waiting short: a second SIGTERM makes a service end
 * its running requests with their errors. Engines whose worker was killed are found by what is known of them and ended as well.
 */
export async function stopStack(
  stateDir: string,
  state: StackState,
  onStage: (processes: readonly StackProcess[]) => void,
  hurry?: AbortSignal,
): Promise<StopReport> {
  const report: StopReport = { ended: [], killed: [], leftovers: [] };
  noteEngines(state);
  if (readState(stateDir) !== undefined) writeState(stateDir, { ...state, isStopping: true });
  for (const roles of STAGES) {
    const members = state.processes.filter((entry) => roles.includes(entry.role));
    const group = members.filter((entry) => entry.pid !== process.pid && isAlive(entry));
    if (group.length > 0) {
      onStage(group);
      await endGroup(group, patienceMs(state, group), report, hurry);
    }
    const engines = members.flatMap((entry) => entry.engines ?? []);
    report.leftovers.push(...(await endEngineGroups(engines, SERVER_STOP_MS, hurry)));
  }
  rmSync(join(stateDir, 'nats'), { recursive: true, force: true });
  removeState(stateDir);
  return report;
}

/** While workers live, their engines are known to be theirs. */
export function noteEngines(state: StackState): boolean {
  const workers = state.processes.filter((entry) => WORKER_ROLES.includes(entry.role));
  if (workers.length === 0) return false;
  const table = listProcesses();
  let isNew = false;
  for (const entry of workers) {
    if (!isAlive(entry)) continue;
    const before = entry.engines ?? [];
    const now = mergeGroups(before, engineGroupsOf(entry.pid, table));
    if (JSON.stringify(now) === JSON.stringify(before)) continue;
    entry.engines = now;
    isNew = true;
  }
  return isNew;
}

function patienceMs({ drainMs }: StackState, group: readonly StackProcess[]): number {
  const [first] = group;
  if (first === undefined || !SERVING_ROLES.includes(first.role)) return SERVER_STOP_MS;
  const hasEngine = group.some((entry) => (entry.engines ?? []).length > 0);
  return drainMs + (hasEngine ? ENGINE_SLACK_MS : DRAIN_SLACK_MS);
}

async function endGroup(
  group: readonly StackProcess[],
  timeoutMs: number,
  report: StopReport,
  hurry: AbortSignal | undefined,
): Promise<void> {
  for (const entry of group) signal(entry, 'SIGTERM');
  const left = (): StackProcess[] => group.filter((entry) => isAlive(entry));
  const options = { timeoutMs, everyMs: POLL_MS };
  await until(
    () => left().length === 0 || undefined,
    hurry ? { ...options, signal: hurry } : options,
  );
  if (hurry?.aborted === true && left().length > 0) {
    await pause(SIGNAL_GAP_MS);
    for (const entry of left()) signal(entry, 'SIGTERM');
    await until(() => left().length === 0 || undefined, { timeoutMs: HURRY_MS, everyMs: POLL_MS });
  }
  const stubborn = left();
  for (const entry of group) {
    // Also for those that ended: a child of theirs may be left in the group.
    if (stubborn.includes(entry) || isGroupLeader(entry)) signal(entry, 'SIGKILL');
    (stubborn.includes(entry) ? report.killed : report.ended).push(entry);
  }
  await until(() => left().length === 0 || undefined, { timeoutMs: 2_000, everyMs: POLL_MS });
}

/** The supervisor belongs to the shell that started it; everything that it started leads a group of its own. */
function isGroupLeader(entry: StackProcess): boolean {
  return entry.role !== 'supervisor';
}

function signal(entry: StackProcess, name: NodeJS.Signals): void {
  if (isGroupLeader(entry)) signalGroup(entry.pid, name);
  else signalProcess(entry.pid, name);
}
