import type { Instance } from '@busbar/protocol';
import { connectBus } from '../clients/bus-client.ts';
import { isLocal, readInstances } from '../clients/cluster.ts';
import { markOf } from '../host/process-table.ts';
import { pause } from '../wait.ts';
import type { StackState } from './state.ts';

/** A bus that answers does so in milliseconds; one that does not must not hold a stop up. */
const ASK_MS = 1_500;
const NAMED_MAX = 8;

/** Processes that hold a lease in the namespace of a stack and that it did not start. Empty when the bus does not answer. */
export async function findJoined(state: StackState): Promise<Instance[]> {
  if (state.natsUrl === '') return [];
  const own = new Set(state.processes.map((entry) => entry.id));
  const asked = askBus(state).catch(() => []);
  const instances = await Promise.race([asked, pause(ASK_MS).then(() => [])]);
  return instances.filter((instance) => !own.has(instance.id));
}

async function askBus(state: StackState): Promise<Instance[]> {
  const bus = await connectBus(state.natsUrl, 'down');
  try {
    return [...(await readInstances(bus, state.namespace)).values()];
  } finally {
    await bus.close();
  }
}

/** One line that names those of them that still run, as far as this machine can tell; undefined when there is none. */
export function describeJoined(joined: readonly Instance[]): string | undefined {
  const left = joined.filter(
    (instance) => !isLocal(instance) || markOf(instance.pid) !== undefined,
  );
  if (left.length === 0) return undefined;
  const names = left
    .slice(0, NAMED_MAX)
    .map(({ id, pid, host }) => `${id} (pid ${pid} on ${host})`);
  const more = left.length > NAMED_MAX ? [`${left.length - NAMED_MAX} more`] : [];
  return `Still here, started by someone else: ${[...names, ...more].join(', ')}.`;
}
