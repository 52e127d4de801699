import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { messageOf } from '@busbar/base';
import { CliError } from '../errors.ts';
import { logTail } from '../host/log-tail.ts';
import { markOf } from '../host/process-table.ts';
import { type StackProcess, type StackRole, type StackState, writeState } from './state.ts';
import { noteEngines } from './stop.ts';

/** What is needed to start one process. */
export interface Launch {
  role: StackRole;
  id: string;
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  logFile: string;
  port?: number;
}

/** A process that ended without being asked. */
export interface Exit {
  process: StackProcess;
  /** `exit code 1` or `SIGKILL`. */
  how: string;
}

const TAIL_LINES = 12;

/**
 * The processes that this start has begun. Each leads its own process group, writes to its own log file, and stands in the
 * state file from the moment it exists.
 */
export class Stack {
  readonly stateDir: string;
  readonly state: StackState;
  readonly #exits: Exit[] = [];
  #onExit: (exit: Exit) => void = () => {};

  constructor(stateDir: string, state: StackState) {
    this.stateDir = stateDir;
    this.state = state;
  }

  /** Ends that were seen so far, the first first. */
  get exits(): readonly Exit[] {
    return this.#exits;
  }

  /** Called for every end from now on. */
  onExit(listener: (exit: Exit) => void): void {
    this.#onExit = listener;
  }

  /** Starts one process. Throws CLI_START_FAILED when its program cannot be run. */
  launch(launch: Launch): StackProcess {
    mkdirSync(dirname(launch.logFile), { recursive: true });
    const log = openSync(launch.logFile, 'w');
    const child = spawn(launch.command, launch.args, {
      detached: true,
      stdio: ['ignore', log, log],
      env: launch.env,
    });
    closeSync(log);
    let reason = 'it ended at once';
    child.on('error', (error) => {
      reason = messageOf(error);
    });
    const mark = child.pid === undefined ? undefined : markOf(child.pid);
    if (mark === undefined) {
      throw new CliError('CLI_START_FAILED', `${launch.id} could not be started: ${reason}`);
    }
    const entry: StackProcess = {
      role: launch.role,
      id: launch.id,
      ...mark,
      startedAt: new Date().toISOString(),
      logFile: launch.logFile,
      ...(launch.port === undefined ? {} : { port: launch.port }),
    };
    child.on('exit', (code, signal) => {
      const exit = { process: entry, how: signal ?? `exit code ${code}` };
      this.#exits.push(exit);
      this.#onExit(exit);
    });
    child.unref();
    this.record(entry);
    return entry;
  }

  /** Adds a process that was started elsewhere. */
  record(entry: StackProcess): void {
    this.state.processes.push(entry);
    writeState(this.stateDir, this.state);
  }

  /** Keeps what the lease of a process says of its admin port. */
  setAdminUrl(entry: StackProcess, adminUrl: string): void {
    entry.adminUrl = adminUrl;
    writeState(this.stateDir, this.state);
  }

  /** Writes down what workers have started in groups of their own, so that it can be ended after them. */
  recordEngines(): void {
    if (noteEngines(this.state)) writeState(this.stateDir, this.state);
  }

  /** Throws CLI_START_FAILED with the end of its log when one process has ended. */
  checkAlive(): void {
    const exit = this.#exits[0];
    if (exit === undefined) return;
    throw new CliError('CLI_START_FAILED', describeExit(exit));
  }
}

/** A sentence and the last lines of the log. */
export function describeExit(exit: Exit): string {
  const file = exit.process.logFile;
  const lines = file === undefined ? [] : logTail(file, TAIL_LINES);
  return [
    `${exit.process.id} (pid ${exit.process.pid}) ended with ${exit.how}; the end of ${file ?? 'its log'}:`,
    ...(lines.length === 0 ? ['  (empty)'] : lines.map((line) => `  ${line}`)),
  ].join('\n');
}
