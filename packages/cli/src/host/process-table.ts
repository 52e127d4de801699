import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** A process that is named beyond the life of its number: two processes never share pid and start. */
export interface ProcessMark {
  pid: number;
  /** When the process was started, as the operating system keeps it. Compared, never parsed. */
  startMark: string;
}

/** The mark of a running process; undefined when there is none, or when it has ended and was not collected yet. */
export function markOf(pid: number): ProcessMark | undefined {
  const startMark = process.platform === 'linux' ? linuxStart(pid) : psStart(pid);
  return startMark === undefined ? undefined : { pid, startMark };
}

/** Whether exactly this process still runs. A reused pid answers false. */
export function isAlive(mark: ProcessMark): boolean {
  return markOf(mark.pid)?.startMark === mark.startMark;
}

/** A process as the table of the system lists it. */
export interface ProcessEntry extends ProcessMark {
  parentPid: number;
  groupId: number;
}

/** Every running process of this machine. Linux only; empty elsewhere. */
export function listProcesses(): ProcessEntry[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const fields = /^\d+$/.test(name) ? statOf(Number(name)) : undefined;
    if (fields === undefined) return [];
    return {
      pid: Number(name),
      parentPid: Number(fields[1]),
      groupId: Number(fields[2]),
      startMark: markFrom(fields),
    };
  });
}

/** Signals one process. False when it is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  return send(pid, signal);
}

/** Signals everything in the process group that `pid` leads or led. False when nothing is left in it. */
export function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  return send(-pid, signal);
}

function send(target: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch {
    return false;
  }
}

function linuxStart(pid: number): string | undefined {
  const fields = statOf(pid);
  return fields === undefined ? undefined : markFrom(fields);
}

/** Fields of /proc/<pid>/stat from the state on; undefined when the process is gone or only waits to be collected. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may hold spaces; fields are counted behind it. 3 is the state, 22 the start in ticks.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields;
  } catch {
    return undefined;
  }
}

function markFrom(fields: readonly string[]): string {
  return `${bootId()}/${fields[19]}`;
}

let bootIdText: string | undefined;

function bootId(): string {
  bootIdText ??= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8);
  return bootIdText;
}

function psStart(pid: number): string | undefined {
  const { status, stdout } = spawnSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
    encoding: 'utf8',
  });
  const text = stdout?.trim() ?? '';
  if (status !== 0 || text === '' || text.startsWith('Z')) return undefined;
  return text.slice(text.indexOf(' ')).trim();
}
