import { z } from 'zod';
import { until } from '../wait.ts';
import { listProcesses, type ProcessEntry, signalGroup } from './process-table.ts';

/**
 * Processes that a worker started in a group of their own: an engine such as vLLM, which outlives a worker that is killed. `members` tell
 * it from another group that has been given the same number since.
 */
export const engineGroupSchema = z.object({
  groupId: z.int().min(2),
  members: z.array(z.object({ pid: z.int().min(1), startMark: z.string() })).max(4_096),
});
export type EngineGroup = z.infer<typeof engineGroupSchema>;

const POLL_MS = 25;
const KILLED_MS = 2_000;

/** Groups, other than its own, of what descends from this worker now. Linux only; elsewhere there are none. */
export function engineGroupsOf(
  workerPid: number,
  table: readonly ProcessEntry[] = listProcesses(),
): EngineGroup[] {
  const own = table.find((entry) => entry.pid === workerPid)?.groupId;
  const family = new Set([workerPid]);
  // A child may stand before its parent in the table.
  for (let size = 0; size !== family.size; ) {
    size = family.size;
    for (const { pid, parentPid } of table) if (family.has(parentPid)) family.add(pid);
  }
  const groups = new Map<number, EngineGroup>();
  for (const { pid, groupId, startMark } of table) {
    if (!family.has(pid) || groupId === own || groupId < 2) continue;
    const group = groups.get(groupId) ?? { groupId, members: [] };
    group.members.push({ pid, startMark });
    groups.set(groupId, group);
  }
  return [...groups.values()];
}

/** What is known of the groups of one worker after another look: a group that is not seen any more may have lost its parent only. */
export function mergeGroups(
  before: readonly EngineGroup[],
  now: readonly EngineGroup[],
): EngineGroup[] {
  const seen = new Set(now.map((group) => group.groupId));
  return [...before.filter((group) => !seen.has(group.groupId)), ...now];
}

/** Those of `groups` in which a process that was seen there before still runs. */
export function livingGroups(
  groups: readonly EngineGroup[],
  table: readonly ProcessEntry[] = listProcesses(),
): EngineGroup[] {
  return groups.filter(({ groupId, members }) =>
    table.some(
      (entry) =>
        entry.groupId === groupId &&
        members.some((member) => member.pid === entry.pid && member.startMark === entry.startMark),
    ),
  );
}

/**
 * Ends the groups that still live: SIGTERM, after `graceMs` SIGKILL. Answers those that it found alive. `hurry` cuts the grace
 * short.
 */
export async function endEngineGroups(
  groups: readonly EngineGroup[],
  graceMs: number,
  hurry?: AbortSignal,
): Promise<EngineGroup[]> {
  const found = groups.length === 0 ? [] : livingGroups(groups);
  if (found.length === 0) return [];
  const gone = (): true | undefined => livingGroups(found).length === 0 || undefined;
  for (const { groupId } of found) signalGroup(groupId, 'SIGTERM');
  const options = { timeoutMs: graceMs, everyMs: POLL_MS };
  await until(gone, hurry === undefined ? options : { ...options, signal: hurry });
  for (const { groupId } of livingGroups(found)) signalGroup(groupId, 'SIGKILL');
  await until(gone, { timeoutMs: KILLED_MS, everyMs: POLL_MS });
  return found;
}
