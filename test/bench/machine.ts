import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';

/** What a reader must know of the machine to judge a figure. */
export interface MachineState {
  cpu: string;
  cores: number;
  memoryGib: number;
  loadAverage1m: number;
  node: string;
  commit: string;
  isDirty: boolean;
  at: string;
}

export function machineState(): MachineState {
  const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' }).trim();
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGib: Math.round(totalmem() / 2 ** 30),
    loadAverage1m: Math.round((loadavg()[0] ?? 0) * 100) / 100,
    node: process.version,
    commit: git('rev-parse', '--short', 'HEAD'),
    isDirty: git('status', '--porcelain', '--untracked-files=no') !== '',
    at: new Date().toISOString(),
  };
}

const TICKS_PER_SECOND = 100;

/** User and system time of the processes so far, in microseconds. Needs /proc. */
export function cpuMicros(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return (ticks / TICKS_PER_SECOND) * 1e6;
}

/** Resident memory of one process in MiB. Needs /proc. */
export function residentMib(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
}
