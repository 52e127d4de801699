import { connectBus } from '../clients/bus-client.ts';
import { type Cluster, observeCluster } from '../clients/cluster.ts';
import { type CliContext, commandFor, namespaceOf, stateDirOf } from '../context.ts';
import { CliError } from '../errors.ts';
import { liveProcesses, readState, type StackState } from './state.ts';

const DEFAULT_NATS_URL = 'nats://127.0.0.1:4222';

/** Which stack a command is about. `state` is absent when this machine runs none of that namespace. */
export interface Target {
  namespace: string;
  stateDir: string;
  state: StackState | undefined;
  natsUrl: string;
}

/** Finds the stack of a namespace: by its state folder, else by BUSBAR_NATS_URL. */
export function findTarget(context: CliContext, namespaceFlag: string | undefined): Target {
  const wanted = namespaceOf(context, namespaceFlag);
  const stateDir = stateDirOf(context, wanted);
  const state = readState(stateDir);
  // A folder that was moved may hold the state of another namespace, which this command must not touch.
  const known = state?.namespace === wanted ? state : undefined;
  return {
    namespace: wanted,
    stateDir,
    state: known,
    natsUrl: known?.natsUrl || context.env['BUSBAR_NATS_URL'] || DEFAULT_NATS_URL,
  };
}

/** True when there is something to look at: a state file, or a NATS that the person named. */
export function hasTarget(context: CliContext, target: Target): boolean {
  return target.state !== undefined || Boolean(context.env['BUSBAR_NATS_URL']);
}

/** Throws CLI_NO_STACK with the command that helps when there is nothing to talk to. */
export function requireTarget(context: CliContext, target: Target): void {
  if (!hasTarget(context, target)) {
    throw new CliError(
      'CLI_NO_STACK',
      `no stack of namespace ${target.namespace} runs here: start one with "${commandFor(target.namespace, 'busbar up')}", or set BUSBAR_NATS_URL`,
    );
  }
}

/** The namespace as the bus shows it; undefined when NATS does not answer. */
export async function observeTarget(
  target: Target,
  listenMs: number,
): Promise<Cluster | undefined> {
  try {
    const bus = await connectBus(target.natsUrl, 'ps');
    try {
      return await observeCluster(bus, target.namespace, listenMs);
    } finally {
      await bus.close();
    }
  } catch {
    return undefined;
  }
}

/** Whether any process of the stack runs on this machine. */
export function isUp(target: Target): boolean {
  return target.state !== undefined && liveProcesses(target.state).length > 0;
}
