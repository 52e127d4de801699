import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { commandFor } from '../context.ts';
import { CliError } from '../errors.ts';
import { isPortFree, portHolder } from '../host/ports.ts';
import { isAlive } from '../host/process-table.ts';
import { liveProcesses, readState, removeState, type StackState } from '../stack/state.ts';

/** Throws CLI_STACK_RUNNING when a stack lives in this folder or is being started. What a dead one left is removed. */
export function checkNoStack(stateDir: string): void {
  const state = readState(stateDir);
  if (state === undefined) return;
  const live = liveProcesses(state);
  const first = live.find((entry) => entry.role === 'supervisor') ?? live[0];
  if (first === undefined) {
    const { starter } = state;
    if (starter !== undefined && isAlive(starter)) {
      throw new CliError(
        'CLI_STACK_RUNNING',
        `a stack is being started (namespace ${state.namespace}, pid ${starter.pid}, port ${state.port}): wait for it, or use --namespace and --port for a second one`,
      );
    }
    removeState(stateDir);
    return;
  }
  throw new CliError(
    'CLI_STACK_RUNNING',
    `a stack is already running (namespace ${state.namespace}, pid ${first.pid}, port ${state.port}): run "${commandFor(state.namespace, 'busbar down')}" first, or use --namespace and --port for a second one`,
  );
}

/** Throws CLI_PORT_IN_USE, with the holder where it can be told. */
export async function checkPort(stateDir: string, host: string, port: number): Promise<void> {
  if (await isPortFree(host, port)) return;
  const ours = siblings(stateDir).find(
    (state) => state.port === port && liveProcesses(state).length > 0,
  );
  const holder = portHolder(port);
  const who = ours
    ? `the stack of namespace ${ours.namespace}`
    : holder
      ? `${holder.name} (pid ${holder.pid})`
      : 'another process, or the address is not of this machine';
  throw new CliError(
    'CLI_PORT_IN_USE',
    `port ${port} on ${host} is held by ${who}: choose another with --port`,
  );
}

/** States of the stacks beside this one. */
function siblings(stateDir: string): StackState[] {
  const parent = dirname(stateDir);
  let names: string[];
  try {
    names = readdirSync(parent);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    try {
      return readState(join(parent, name)) ?? [];
    } catch {
      return [];
    }
  });
}
