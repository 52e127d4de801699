import { type ChildProcess, spawn } from 'node:child_process';
import { waitFor } from './wait-for.ts';

/** Output beyond this many characters is dropped from its beginning. */
const OUTPUT_LIMIT = 1_000_000;

export interface SpawnOptions {
  args?: string[];
  /** Added to the environment of this process; `undefined` removes a variable. */
  env?: Record<string, string | undefined>;
  cwd?: string;
}

export interface ManagedProcess {
  readonly pid: number;
  /** Standard output and error so far, interleaved. */
  readonly output: string;
  /** Exit code, or the name of the signal that ended it. */
  readonly exited: Promise<number | string>;
  /** Undefined while it runs. */
  readonly exit: number | string | undefined;
  /** Sends a signal to the process alone. */
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM; SIGKILL to the whole group when it is not gone after `graceMs`. */
  stop(graceMs?: number): Promise<number | string>;
  /** SIGKILL to the process and everything it started. */
  kill(): Promise<void>;
  /** Resolves with the match when the output has one. */
  waitForOutput(pattern: RegExp, timeoutMs: number): Promise<RegExpExecArray>;
}

const live = new Set<number>();
let isHooked = false;

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group is gone already.
  }
}

/** Nothing that a test starts may outlive it, however the test process ends. */
function hookExit(): void {
  if (isHooked) return;
  isHooked = true;
  const killAll = (): void => {
    for (const pid of live) killGroup(pid);
  };
  process.on('exit', killAll);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      killAll();
      process.kill(process.pid, signal);
    });
  }
}

class SpawnedProcess implements ManagedProcess {
  readonly pid: number;
  readonly exited: Promise<number | string>;
  readonly #child: ChildProcess;
  #output = '';
  #exit: number | string | undefined;

  constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.pid = pid;
    const collect = (chunk: Buffer): void => {
      this.#output = (this.#output + chunk.toString()).slice(-OUTPUT_LIMIT);
    };
    child.stdout?.on('data', collect);
    child.stderr?.on('data', collect);
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#exit = code ?? signal ?? 'unknown';
        // What it started and left behind goes with it.
        killGroup(pid);
        live.delete(pid);
        resolve(this.#exit);
      });
    });
  }

  get output(): string {
    return this.#output;
  }

  get exit(): number | string | undefined {
    return this.#exit;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async stop(graceMs = 5_000): Promise<number | string> {
    if (this.#exit === undefined) this.#child.kill('SIGTERM');
    const timer = setTimeout(() => killGroup(this.pid), graceMs);
    const exit = await this.exited;
    clearTimeout(timer);
    return exit;
  }

  async kill(): Promise<void> {
    killGroup(this.pid);
    await this.exited;
  }

  async waitForOutput(pattern: RegExp, timeoutMs: number): Promise<RegExpExecArray> {
    const what = `output ${pattern} of process ${this.pid}`;
    const look = (): RegExpExecArray | 'ended' | undefined =>
      pattern.exec(this.#output) ?? (this.#exit === undefined ? undefined : 'ended');
    const found = await waitFor(look, timeoutMs, what).catch(() => 'ended' as const);
    if (found !== 'ended') return found;
    const state = this.#exit === undefined ? `within ${timeoutMs} ms` : `before it ended`;
    throw new Error(`${what} did not come ${state}; it wrote:\n${this.#output.slice(-4_000)}`);
  }
}

/**
 * Starts `command` in a process group of its own and collects what it writes. The group is killed when the process ends,
 * and when the process that called this ends first.
 */
export function spawnProcess(command: string, options: SpawnOptions = {}): ManagedProcess {
  hookExit();
  const child = spawn(command, options.args ?? [], {
    detached: true,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  const { pid } = child;
  if (pid === undefined) {
    child.on('error', () => {});
    throw new Error(`cannot start ${command}`);
  }
  live.add(pid);
  return new SpawnedProcess(child, pid);
}
