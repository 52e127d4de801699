import { setTimeout as sleep } from 'node:timers/promises';
import type { BusMessage, Subscription } from '@busbar/bus';
import { limit, ROUTER_QUEUE } from '@busbar/protocol';
import { createRouterCore, ROUTER_DEFAULTS, type RouterCore } from '@busbar/routing';
import {
  type LeaseProblemListener,
  leaseProblems,
  type Service,
  type ServiceContext,
} from '@busbar/service';
import type { RouterServiceConfig } from './config.ts';
import { Convergence } from './convergence.ts';
import { DecisionLog } from './decision-log.ts';
import { Desk, type DeskParts } from './desk.ts';
import { InstanceWatch } from './instance-watch.ts';
import { fetchSnapshot } from './kv-sync.ts';
import { watchLinks } from './link-watch.ts';
import { createRouterMetrics } from './metrics.ts';
import { routerChecks } from './readiness.ts';
import { SilenceWatch } from './silence-watch.ts';
import { createPairMetrics } from './split-metrics.ts';
import { createStateMetrics } from './state-metrics.ts';
import { TruthBoard } from './truth-board.ts';

const BOOTSTRAP_LIMIT_MS = 3_000;
const POLL_MS = 10;

/**
 * A router: hears of every worker's cache and load and of every request, and answers placement requests. It joins the queue group
 * only when it knows the workers and their blocks, or when that took too long.
 */
export async function createRouter(
  context: ServiceContext,
  config: RouterServiceConfig,
): Promise<Service> {
  const { bus, subjects, log } = context;
  const nowMs = (): number => context.clock.monotonicMs();
  const core = createCore(context, config);
  const decisions = new DecisionLog();
  const truth = new TruthBoard(context);
  const metrics = createRouterMetrics(context.registry, config.policy);
  const desk = createDesk(context, { core, metrics, decisions, truth });
  // What workers say is heard before their snapshots are asked for, so that nothing falls between.
  const subscriptions: Subscription[] = [
    bus.subscribe(subjects.kvAll, (message: BusMessage) => desk.onKv(message)),
    bus.subscribe(subjects.loadAll, (message: BusMessage) => desk.onLoad(message)),
    bus.subscribe(subjects.lifeAll, (message: BusMessage) => desk.onLife(message)),
    bus.subscribe(subjects.heldAll, (message: BusMessage) => desk.onHeld(message)),
  ];
  const problems = (subject: string): LeaseProblemListener =>
    leaseProblems(log, () => metrics.onBadFrame(subject));
  const { links: linkBucket, instances: instanceBucket } = context.buckets;
  const links = await watchLinks(await bus.bucket(linkBucket), desk, problems('links'));
  const instances = await InstanceWatch.start(
    await bus.bucket(instanceBucket),
    desk,
    problems('instances'),
  );
  const stopStatus = bus.onStatus((change) => {
    if (change === 'reconnected') desk.onReconnected();
  });
  const silence = new SilenceWatch(context, desk.stats, limit('loadSilenceMs'));
  await bootstrapped(desk, context);
  const onRoute = (message: BusMessage): void => desk.onRoute(message);
  const routes = [
    bus.subscribe(subjects.routeAll, onRoute, { queue: ROUTER_QUEUE }),
    bus.subscribe(subjects.routeTo(context.id), onRoute),
  ];
  await bus.flush();
  log.info({ policy: config.policy, workers: core.workers(nowMs()).length }, 'router bootstrapped');

  return {
    checks: () => routerChecks(config, core.workers(nowMs()), core.pairs(nowMs())),
    adminRoutes: {
      '/workers': () => core.workers(nowMs()),
      '/links': () => core.pairs(nowMs()),
      '/decisions': () => decisions.list(),
    },
    drain: async (signal) => {
      for (const route of routes) route.unsubscribe();
      while (desk.queued > 0 && !signal.aborted) await sleep(POLL_MS);
    },
    stop: async () => {
      for (const subscription of subscriptions) subscription.unsubscribe();
      instances.stop();
      links.stop();
      truth.stop();
      silence.stop();
      stopStatus();
      desk.stop();
      await bus.flush();
    },
  };
}

function createCore(context: ServiceContext, config: RouterServiceConfig): RouterCore {
  return createRouterCore(
    {
      ...ROUTER_DEFAULTS,
      routerId: context.id,
      policy: config.policy,
      queueWaitMs: config.queueWaitMs,
      eventGraceMs: config.eventGraceMs,
      disaggregation: {
        ...ROUTER_DEFAULTS.disaggregation,
        mode: config.disaggregation,
        thresholdTokens: config.disaggregationThreshold,
        isStrict: config.disaggregationStrict,
      },
    },
    context.rng,
  );
}

function createDesk(
  context: ServiceContext,
  parts: Pick<DeskParts, 'core' | 'metrics' | 'decisions' | 'truth'>,
): Desk {
  const { bus, subjects, clock, registry } = context;
  const { core, metrics } = parts;
  const desk = new Desk(context, {
    ...parts,
    convergence: new Convergence((seconds) => metrics.convergenceSeconds.observe(seconds)),
    fetchSnapshot: (workerId, signal) => fetchSnapshot(bus, subjects, workerId, signal),
  });
  createPairMetrics(registry, () => core.pairs(clock.monotonicMs()));
  createStateMetrics(registry, {
    workers: (nowMs) => core.workers(nowMs),
    stats: () => desk.stats,
    queued: () => desk.queued,
    nowMs: () => clock.monotonicMs(),
  });
  return desk;
}

/** Waits until the block sets of all known workers were fetched, or fetching failed, but not for ever. */
async function bootstrapped(desk: Desk, { clock, log }: ServiceContext): Promise<void> {
  const deadlineMs = clock.monotonicMs() + BOOTSTRAP_LIMIT_MS;
  while (desk.syncing > 0) {
    if (clock.monotonicMs() > deadlineMs) {
      log.warn({ missing: desk.syncing }, 'starting without the block sets of some workers');
      return;
    }
    await sleep(POLL_MS);
  }
}
