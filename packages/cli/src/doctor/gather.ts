import { readFileSync } from 'node:fs';
import { messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import { createSubjects, type LinkRecord, lastToken, limit } from '@busbar/protocol';
import { readinessSchema, routerLinksSchema, routerWorkersSchema } from '../clients/admin-pages.ts';
import { connectBus } from '../clients/bus-client.ts';
import { type Cluster, observeCluster, readLinks } from '../clients/cluster.ts';
import type { Env } from '../context.ts';
import { readNatsInfo } from '../nats/info.ts';
import { isAdminHidden, viewStack } from '../stack/stack-view.ts';
import { stackUrl } from '../stack/state.ts';
import type { Target } from '../stack/target.ts';
import type { Facts } from './facts.ts';
import { readAll, readRouters } from './gather-admin.ts';
import { gatherHost } from './gather-host.ts';
import { sendProbe } from './gather-probe.ts';
import { Patience } from './patience.ts';

const NATS_MS = 2_000;
/** Two heartbeats of a worker, and some slack. */
const LISTEN_MS = 2 * limit('loadIntervalMs') + 100;
/** A bus that answers does so in milliseconds; one that does not must not hold a diagnosis up. */
const BUS_MS = 5_000;
/** nvidia-smi alone may take 5 s. */
const HOST_MS = 8_000;

export interface GatherInput {
  target: Target;
  /** HTTP API for the probe; absent: the stack of this machine. */
  url: string | undefined;
  env: Env;
  signal: AbortSignal;
}

/** Looks at everything once, sends the probe, and looks at what the probe changed. Never throws, and every step has its limit. */
export async function gatherFacts({ target, url, env, signal }: GatherInput): Promise<Facts> {
  const patience = new Patience();
  const host = patience.wait('looking at this machine', HOST_MS, gatherHost(target.state, env));
  const nats = await readNatsInfo(target.natsUrl, NATS_MS).catch((error: unknown) => ({
    error: `nothing answers as NATS at ${target.natsUrl}: ${messageOf(error)}`,
  }));
  const bus =
    'error' in nats
      ? undefined
      : await patience.wait('connecting to NATS', BUS_MS, connectBus(target.natsUrl, 'doctor'));
  const probeUrl = url ?? (target.state === undefined ? undefined : stackUrl(target.state));
  try {
    const seen = await lookAtBus(bus, target.namespace, probeUrl, patience, signal);
    const stack = viewStack(target.namespace, target.state, seen.after);
    const live = stack.processes.filter((view) => view.adminUrl && !isAdminHidden(view));
    return {
      namespace: target.namespace,
      natsUrl: target.natsUrl,
      policy: target.state?.policy,
      disaggregation: target.state?.disaggregation,
      nats,
      stack,
      cluster: seen.before,
      readiness: await readAll(live, '/ready', (body) => readinessSchema.parse(body)),
      routerWorkers: await readRouters(live, '/workers', (body) => routerWorkersSchema.parse(body)),
      routerLinks: await readRouters(live, '/links', (body) => routerLinksSchema.parse(body)),
      probeUrl,
      probe: seen.probe,
      heardBatches: seen.heardBatches,
      storedAfter: new Map(
        [...(seen.after?.loads ?? [])].map(([id, load]) => [id, load.storedBlocksTotal]),
      ),
      links: seen.links,
      host: await host,
      openFilesMax: openFilesMax(),
      givenUp: patience.givenUp,
    };
  } finally {
    if (bus !== undefined) await patience.wait('leaving NATS', BUS_MS, bus.close());
  }
}

interface Seen {
  before: Cluster | undefined;
  after: Cluster | undefined;
  links: LinkRecord[];
  probe: Facts['probe'];
  heardBatches: Map<string, number>;
}

/** Observes the namespace, taps the KV events while the probe runs, and observes again. */
async function lookAtBus(
  bus: Bus | undefined,
  namespace: string,
  url: string | undefined,
  patience: Patience,
  signal: AbortSignal,
): Promise<Seen> {
  const heardBatches = new Map<string, number>();
  const observe = async (): Promise<Cluster | undefined> =>
    bus &&
    patience.wait('reading leases from the bus', BUS_MS, observeCluster(bus, namespace, LISTEN_MS));
  const before = await observe();
  const tap = bus?.subscribe(createSubjects(namespace).kvAll, (message) => {
    const worker = lastToken(message.subject);
    heardBatches.set(worker, (heardBatches.get(worker) ?? 0) + 1);
  });
  try {
    const probe = url === undefined ? undefined : await sendProbe(url, before?.cards ?? [], signal);
    const after = await observe();
    // Behind the probe, which may have been the first to use a link.
    const links =
      bus && (await patience.wait('reading links from the bus', BUS_MS, readLinks(bus, namespace)));
    return { before, after, links: links ?? [], probe, heardBatches };
  } finally {
    tap?.unsubscribe();
  }
}

/** Soft limit of open files of this process, which services inherit; undefined where /proc does not tell. */
function openFilesMax(): number | undefined {
  try {
    const match = /^Max open files\s+(\d+|unlimited)/m.exec(
      readFileSync('/proc/self/limits', 'latin1'),
    );
    if (match?.[1] === undefined) return undefined;
    return match[1] === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(match[1]);
  } catch {
    return undefined;
  }
}
