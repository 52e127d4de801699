import { readFileSync } from 'node:fs';
import { messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import { createSubjects, lastToken } from '@busbar/protocol';
import { connectBus } from '../bus-client.ts';
import { type Cluster, observeCluster } from '../cluster.ts';
import { chatOnce, getJson, listModels } from '../http.ts';
import { readNatsInfo } from '../nats/info.ts';
import type { Target } from '../observe.ts';
import { type ProcessView, viewStack } from '../stack-view.ts';
import { stackUrl } from '../state.ts';
import { pause } from '../wait.ts';
import {
  type Facts,
  type Probe,
  type RouterWorker,
  readinessSchema,
  routerWorkersSchema,
} from './facts.ts';

const NATS_MS = 2_000;
const ADMIN_MS = 2_000;
/** Three heartbeats of a worker. */
const LISTEN_MS = 350;
const PROBE_MS = 15_000;
/** KV events follow the step that made the blocks; routers apply them within milliseconds. */
const SETTLE_MS = 200;
const RESENDS = 3;
const PROBE_WORDS = 450;

/** Looks at everything once, sends the probe, and looks at what the probe changed. Never throws. */
export async function gatherFacts(
  target: Target,
  probeUrl: string | undefined,
  signal: AbortSignal,
): Promise<Facts> {
  const nats = await readNatsInfo(target.natsUrl, NATS_MS).catch((error: unknown) => ({
    error: `nothing answers as NATS at ${target.natsUrl}: ${messageOf(error)}`,
  }));
  const bus =
    'error' in nats ? undefined : await connectBus(target.natsUrl, 'doctor').catch(() => undefined);
  const url = probeUrl ?? (target.state === undefined ? undefined : stackUrl(target.state));
  try {
    const seen = await lookAtBus(bus, target.namespace, url, signal);
    const stack = viewStack(target.namespace, target.state, seen.after);
    const live = stack.processes.filter((view) => view.adminUrl !== undefined);
    return {
      namespace: target.namespace,
      natsUrl: target.natsUrl,
      policy: target.state?.policy,
      nats,
      stack,
      cluster: seen.before,
      readiness: await readAll(live, '/ready', (body) => readinessSchema.parse(body)),
      routerWorkers: await readRouters(live),
      probe: seen.probe,
      heardBatches: seen.heardBatches,
      storedAfter: new Map(
        [...(seen.after?.loads ?? [])].map(([id, load]) => [id, load.storedBlocksTotal]),
      ),
      openFilesMax: openFilesMax(),
    };
  } finally {
    await bus?.close().catch(() => {});
  }
}

interface Seen {
  before: Cluster | undefined;
  after: Cluster | undefined;
  probe: Facts['probe'];
  heardBatches: Map<string, number>;
}

/** Observes the namespace, taps the KV events while the probe runs, and observes again. */
async function lookAtBus(
  bus: Bus | undefined,
  namespace: string,
  url: string | undefined,
  signal: AbortSignal,
): Promise<Seen> {
  const heardBatches = new Map<string, number>();
  const observe = (): Promise<Cluster | undefined> =>
    bus === undefined
      ? Promise.resolve(undefined)
      : observeCluster(bus, namespace, LISTEN_MS).catch(() => undefined);
  const before = await observe();
  const tap = bus?.subscribe(createSubjects(namespace).kvAll, (message) => {
    const worker = lastToken(message.subject);
    heardBatches.set(worker, (heardBatches.get(worker) ?? 0) + 1);
  });
  try {
    const probe = url === undefined ? undefined : await sendProbe(url, signal);
    const after = await observe();
    return { before, after, probe, heardBatches };
  } finally {
    tap?.unsubscribe();
  }
}

/** Sends one prompt that no cache can hold, then the same again until it hits. */
async function sendProbe(url: string, signal: AbortSignal): Promise<Facts['probe']> {
  try {
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    const model = (await listModels(url, bounded))[0];
    if (model === undefined) return { error: `${url} lists no model` };
    const content = probeText(crypto.randomUUID());
    const probe: Probe = { promptTokens: 0, cachedTokens: [] };
    for (let attempt = 0; attempt <= RESENDS; attempt++) {
      const answer = await chatOnce({
        url,
        model,
        messages: [{ role: 'user', content }],
        maxTokens: 1,
        signal: bounded,
      });
      probe.promptTokens = answer.promptTokens;
      probe.cachedTokens.push(answer.cachedTokens);
      if (attempt > 0 && answer.cachedTokens >= answer.promptTokens / 2) break;
      await pause(SETTLE_MS, signal);
    }
    return probe;
  } catch (error) {
    return { error: messageOf(error) };
  }
}

/** About 600 tokens that begin with what no other prompt begins with. */
function probeText(unique: string): string {
  const words = ['the', 'river', 'turns', 'under', 'a', 'stone', 'bridge', 'and', 'goes', 'on'];
  const text = Array.from({ length: PROBE_WORDS }, (_, i) => words[i % words.length]);
  return `${unique} ${text.join(' ')}`;
}

async function readRouters(
  live: readonly ProcessView[],
): Promise<Map<string, readonly RouterWorker[]>> {
  const routers = live.filter((view) => view.role === 'router');
  const bodies = await readAll(routers, '/workers', (body) => routerWorkersSchema.parse(body));
  const known = new Map<string, readonly RouterWorker[]>();
  for (const [id, workers] of bodies) if (workers !== undefined) known.set(id, workers);
  return known;
}

/** Asks one path of every admin port at the same time. */
async function readAll<T>(
  live: readonly ProcessView[],
  path: string,
  parse: (body: unknown) => T,
): Promise<Map<string, T | undefined>> {
  const answers = await Promise.all(
    live.map(async ({ id, adminUrl }): Promise<[string, T | undefined]> => {
      const answer = adminUrl === undefined ? undefined : await getJson(adminUrl + path, ADMIN_MS);
      try {
        return [id, answer === undefined ? undefined : parse(answer.body)];
      } catch {
        return [id, undefined];
      }
    }),
  );
  return new Map(answers);
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
