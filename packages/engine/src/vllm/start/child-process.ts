import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { VllmError } from '../errors.ts';
import { parseStat } from './proc-stat.ts';

const GUARD = join(import.meta.dirname, 'group-guard.sh');
/** How long a group may take to vanish after SIGKILL: only processes in uninterruptible I/O take longer than a moment. */
const KILL_MS = 5_000;
const POLL_MS = 50;

export interface ChildEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Groups that must not outlive this process. */
const groups = new Set<number>();
let isHooked = false;

/**
 * A command with all its descendants in a process group of its own. The group ends with this process, however that ends: a normal exit
 * kills it at once, and a guard in the group sees the pipe close when this process is killed.
 */
export class GroupChild {
  readonly #child: ChildProcess;
  readonly #pid: number;
  readonly ended: Promise<ChildEnd>;
  #isEnded = false;

  private constructor(child: ChildProcess, pid: number, ended: Promise<ChildEnd>) {
    this.#child = child;
    this.#pid = pid;
    this.ended = ended.then((end) => {
      this.#isEnded = true;
      return end;
    });
    groups.add(pid);
    if (isHooked) return;
    isHooked = true;
    process.on('exit', () => {
      for (const group of groups) signalGroup(group, 'SIGKILL');
    });
  }

  /** Rejects with VllmError when the command cannot be run at all. */
  static async start(options: {
    command: readonly string[];
    env: Readonly<Record<string, string | undefined>>;
    graceMs: number;
    onLine(line: string): void;
  }): Promise<GroupChild> {
    const grace = String(Math.ceil(options.graceMs / 1_000));
    const child = spawn('/bin/sh', [GUARD, grace, ...options.command], {
      detached: true,
      env: options.env,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
    const ended = new Promise<ChildEnd>((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => {
        reject(new VllmError('VLLM_START', `${options.command[0]}: ${error.message}`));
      });
    });
    // The other end of the guard's pipe may be gone before us.
    child.stdio[3]?.on('error', () => {});
    for (const output of [child.stdout, child.stderr]) {
      if (output === null) continue;
      createInterface({ input: output }).on('line', (line) => options.onLine(line));
    }
    return new GroupChild(child, child.pid ?? 0, ended);
  }

  get pid(): number {
    return this.#pid;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** SIGTERM to the whole group, SIGKILL to what is left after `graceMs`; resolves when nothing of it is left. */
  async stop(graceMs: number): Promise<void> {
    signalGroup(this.#pid, 'SIGTERM');
    await this.#waitGone(graceMs);
    signalGroup(this.#pid, 'SIGKILL');
    await this.#waitGone(KILL_MS);
    groups.delete(this.#pid);
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
    this.#child.stdio[3]?.destroy();
  }

  async #waitGone(limitMs: number): Promise<void> {
    const deadline = performance.now() + limitMs;
    while (isGroupAlive(this.#pid) && performance.now() < deadline) await sleep(POLL_MS);
  }
}

/** Dead members whom nobody has reaped yet do not count: who inherits them may take a second. */
function isGroupAlive(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  const members = readdirSync('/proc').filter(
    (name) => /^\d+$/.test(name) && isMember(name, group),
  );
  return members.length > 0;
}

function isMember(pid: string, group: number): boolean {
  try {
    const { state, groupId } = parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    return groupId === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nothing of it is left.
  }
}
