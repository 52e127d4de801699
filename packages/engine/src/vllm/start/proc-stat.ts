/** What `/proc/<pid>/stat` says of a process, as far as it is asked here. */
export interface ProcStat {
  /** `Z` and `X` have ended and were not collected yet. */
  state: string;
  parentPid: number;
  groupId: number;
}

/** Reads the text of `/proc/<pid>/stat`. */
export function parseStat(text: string): ProcStat {
  // The second field is the name in parentheses, and may hold anything.
  const [state = '', parentPid, groupId] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state, parentPid: Number(parentPid), groupId: Number(groupId) };
}
