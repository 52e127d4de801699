import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf } from '@busbar/base';
import { z } from 'zod';
import { CliError } from '../errors.ts';
import { engineGroupSchema } from '../host/engine-groups.ts';
import { isAlive } from '../host/process-table.ts';

/** Roles of the processes of a stack, in the order in which `down` ends them. */
export const STACK_ROLES = [
  'frontend',
  'router',
  'decode',
  'prefill',
  'nats-server',
  'supervisor',
  'guard',
] as const;
export type StackRole = (typeof STACK_ROLES)[number];

const processSchema = z.object({
  role: z.enum(STACK_ROLES),
  id: z.string(),
  pid: z.int().min(1),
  startMark: z.string(),
  startedAt: z.string(),
  /** The port that is known beforehand: HTTP of a frontend, clients of nats-server. */
  port: z.int().optional(),
  logFile: z.string().optional(),
  /** As the lease told it at the start, so that it is known without NATS. */
  adminUrl: z.string().optional(),
  /** Of a worker: what it started in groups of their own. */
  engines: z.array(engineGroupSchema).optional(),
});
export type StackProcess = z.infer<typeof processSchema>;

const stateSchema = z.object({
  version: z.literal(1),
  namespace: z.string(),
  host: z.string(),
  port: z.int(),
  model: z.string(),
  policy: z.string(),
  engine: z.string().optional(),
  modelPath: z.string().optional(),
  vllmCommand: z.string().optional(),
  /** Its engines ran before, and were not started by workers. */
  isAttached: z.boolean().optional(),
  disaggregation: z.object({ mode: z.string(), isStrict: z.boolean() }).optional(),
  natsUrl: z.string(),
  drainMs: z.int().min(0),
  /** The `busbar up` that takes the folder: before it has started a process, nothing else tells that the stack lives. */
  starter: z.object({ pid: z.int().min(1), startMark: z.string() }).optional(),
  /** Set by `down`, so that a supervisor does not take the ends of its processes for crashes. */
  isStopping: z.boolean(),
  processes: z.array(processSchema),
});
export type StackState = z.infer<typeof stateSchema>;

export function stateFile(stateDir: string): string {
  return join(stateDir, 'state.json');
}

/** The state of the stack in this folder; undefined when there is none. Throws CLI_STATE when it cannot be read or is broken. */
export function readState(stateDir: string): StackState | undefined {
  let text: string;
  try {
    text = readFileSync(stateFile(stateDir), 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT') || isCode(error, 'ENOTDIR')) return undefined;
    throw new CliError('CLI_STATE', `the state of a stack cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  try {
    return stateSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CliError(
      'CLI_STATE',
      `${stateFile(stateDir)} is not a state file of this version: end what still runs by hand and delete it (${messageOf(error).slice(0, 200)})`,
      { cause: error },
    );
  }
}

/** Takes the folder for a new stack. Throws CLI_STACK_RUNNING when another start was quicker, CLI_STATE when it cannot be written. */
export function claimState(stateDir: string, state: StackState): void {
  try {
    makeFolder(resolve(stateDir));
  } catch (error) {
    throw unusable(stateDir, error);
  }
  try {
    writeFileSync(stateFile(stateDir), render(state), { flag: 'wx' });
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw unusable(stateDir, error);
    throw new CliError('CLI_STACK_RUNNING', `another start took ${stateDir} just now`, {
      cause: error,
    });
  }
}

/** One level after the other: below /proc, `recursive` of mkdirSync makes no folder and never returns. */
function makeFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another start may have made it meanwhile.
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

function unusable(stateDir: string, error: unknown): CliError {
  return new CliError(
    'CLI_STATE',
    `the folder ${stateDir} cannot hold the state of a stack: ${messageOf(error)}. Set BUSBAR_STATE_DIR to a folder that can be written`,
    { cause: error },
  );
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** Replaces the state as a whole: a reader sees the old one or the new one. */
export function writeState(stateDir: string, state: StackState): void {
  const temporary = `${stateFile(stateDir)}.${process.pid}`;
  writeFileSync(temporary, render(state));
  renameSync(temporary, stateFile(stateDir));
}

export function removeState(stateDir: string): void {
  rmSync(stateFile(stateDir), { force: true });
}

/** The processes of a stack that still run. */
export function liveProcesses(state: StackState): StackProcess[] {
  return state.processes.filter((entry) => isAlive(entry));
}

/** Where a client reaches the HTTP API. A wildcard address is reached by loopback. */
export function stackUrl(state: Pick<StackState, 'host' | 'port'>): string {
  const host = state.host === '0.0.0.0' || state.host === '::' ? '127.0.0.1' : state.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${state.port}`;
}

function render(state: StackState): string {
  return `${JSON.stringify(state, undefined, 2)}\n`;
}
