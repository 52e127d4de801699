import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, signalGroup, signalProcess } from './process-table.ts';
import {
  readState,
  removeState,
  type StackProcess,
  type StackRole,
  type StackState,
  writeState,
} from './state.ts';
import { until } from './wait.ts';

/** Who is asked to end together: nobody loses the ones it needs to finish its work. */
const STAGES: readonly (readonly StackRole[])[] = [
  ['frontend'],
  ['router', 'decode', 'prefill'],
  ['nats-server'],
  ['supervisor', 'guard'],
];

/** Beyond the drain time of a service, until it is killed. */
const DRAIN_SLACK_MS = 3_000;
const SERVER_STOP_MS = 5_000;
const POLL_MS = 25;

export interface StopReport {
  ended: StackProcess[];
  /** These did not end in time and were killed. */
  killed: StackProcess[];
}

/**
 * Ends every process of a stack in order, by SIGTERM and, after a bound, SIGKILL to the whole process group. Removes its
 * state and the files of its nats-server; logs stay. `hurry` fires to cut the waiting short.
 */
export async function stopStack(
  stateDir: string,
  state: StackState,
  onStage: (processes: readonly StackProcess[]) => void,
  hurry?: AbortSignal,
): Promise<StopReport> {
  const report: StopReport = { ended: [], killed: [] };
  if (readState(stateDir) !== undefined) writeState(stateDir, { ...state, isStopping: true });
  for (const roles of STAGES) {
    const group = state.processes.filter(
      (entry) => roles.includes(entry.role) && entry.pid !== process.pid && isAlive(entry),
    );
    if (group.length === 0) continue;
    onStage(group);
    const serves = roles[0] === 'frontend' || roles[0] === 'router';
    await endGroup(group, serves ? state.drainMs + DRAIN_SLACK_MS : SERVER_STOP_MS, report, hurry);
  }
  rmSync(join(stateDir, 'nats'), { recursive: true, force: true });
  removeState(stateDir);
  return report;
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
