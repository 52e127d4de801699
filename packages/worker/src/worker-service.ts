import { messageOf } from '@busbar/base';
import type { BusMessage } from '@busbar/bus';
import { createTransferServer, type Engine, probeLink, type TransferServer } from '@busbar/engine';
import type { ModelCard, WorkerInfo } from '@busbar/protocol';
import {
  type Check,
  type LeaseProblemListener,
  leaseProblems,
  type Service,
  type ServiceContext,
} from '@busbar/service';
import { createAdminActions } from './admin-actions.ts';
import { Closers } from './closers.ts';
import type { WorkerConfig } from './config.ts';
import { EngineMetrics } from './engine-metrics.ts';
import { watchFrontends } from './frontend-watch.ts';
import { createLinkMetrics } from './links/link-metrics.ts';
import { Links } from './links/links.ts';
import { createWarmUp } from './links/warm-up.ts';
import { LoadReporter } from './load-reporter.ts';
import { createWorkerMetrics, type WorkerMetrics } from './metrics.ts';
import { checkModelCard, publishModelCard, restoreModelCard } from './model-card.ts';
import { setUpEngine } from './setup/engine-setup.ts';
import type { Env } from './setup/port.ts';
import { asTransferError, transferAddress, unreachableHint } from './setup/transfer-address.ts';
import { Worker } from './worker.ts';

const EXPIRE_EVERY_MS = 2_000;
/** What is closed beside the engine: records are taken back, a port is closed. */
const STOP_REST_MS = 3_000;

/**
 * A worker: hosts one engine, takes requests from frontends and tells routers of its load and its KV cache. `env` is the
 * environment that an engine in a process of its own gets, less what is Busbar's.
 */
export async function createWorkerService(
  context: ServiceContext,
  config: WorkerConfig,
  env: Env,
): Promise<Service> {
  const { role, id, log } = context;
  const setup = await setUpEngine(context, config, env);
  const { engine } = setup;
  let fault: Error | undefined;
  const metrics = createWorkerMetrics(context.registry, role, () => engine.load());
  const worker = new Worker(context, engine, metrics, (error) => {
    fault = error;
    // An engine that failed does not come back: the process ends, and whoever supervises it starts another.
    setImmediate(() => {
      throw error;
    });
  });
  const closers = new Closers();
  const started = await startEngine(engine, worker, context.stopping).catch((error: unknown) => {
    throw asTransferError(error, config);
  });
  closers.add(() => worker.stop());
  try {
    const { info, links } = await open({
      context,
      config,
      metrics,
      worker,
      closers,
      setup,
      started,
    });
    return {
      checks: (): Check[] => [
        {
          name: 'engine',
          ok: fault === undefined,
          detail: fault?.message ?? `${info.engine} runs`,
        },
      ],
      adminRoutes: links === undefined ? {} : { '/links': () => links.view() },
      adminActions: createAdminActions(engine, worker, log),
      metricsText: createEngineMetrics(context, engine),
      stopMs: setup.stopMs + STOP_REST_MS,
      drain: async (signal) => {
        log.info({ running: worker.running, staged: worker.staged }, 'draining');
        await worker.drain(signal);
        const { running, staged } = worker;
        if (running + staged > 0) log.warn({ running, staged }, 'the drain limit is reached');
      },
      stop: async () => {
        await closers.close();
        context.publishEvent('worker.left', id, { model: info.model, reason: 'stopped' });
      },
    };
  } catch (error) {
    await closers.close();
    throw asTransferError(error, config);
  }
}

/** The signal counts until the engine runs: from then on it ends after a drain. */
async function startEngine(
  engine: Engine,
  worker: Worker,
  stopping: AbortSignal,
): Promise<WorkerInfo> {
  stopping.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(stopping.reason);
  stopping.addEventListener('abort', abort, { once: true });
  try {
    return await engine.start(worker, controller.signal);
  } finally {
    stopping.removeEventListener('abort', abort);
  }
}

interface Opening {
  context: ServiceContext;
  config: WorkerConfig;
  metrics: WorkerMetrics;
  worker: Worker;
  closers: Closers;
  setup: Awaited<ReturnType<typeof setUpEngine>>;
  /** What the engine says of itself. */
  started: WorkerInfo;
}

/** Everything between a running engine and a worker that others see. What it opens is closed by `closers`, last first. */
async function open(opening: Opening): Promise<{ info: WorkerInfo; links: Links | undefined }> {
  const { context, config, metrics, worker, closers, setup, started } = opening;
  const { bus, subjects, buckets, id, log } = context;
  await shareCard(opening, await setup.describe(started));
  const server = await openProbeServer(opening);
  const complete = (info: WorkerInfo): WorkerInfo => withEndpoint(info, server?.endpoint);
  const info = complete(started);
  const onBadLease = leaseProblems(log, () => metrics.badFrames('instances'));
  const links = await openLinks(opening, info, onBadLease);
  const reporter = new LoadReporter(
    () => worker.facts(),
    (data) => {
      // A heartbeat that would arrive late is worse than none.
      if (bus.status === 'connected') bus.publish(subjects.load(id), data);
    },
  );
  closers.add(() => reporter.stop());
  worker.open(info, {
    onDrain: () => reporter.send(),
    onInfo: (now) => context.updateInstance({ worker: complete(now) }),
    ...(links === undefined ? {} : { fetches: links }),
  });
  const listen = (subject: string, handler: (message: BusMessage) => void): void => {
    const subscription = bus.subscribe(subject, handler);
    closers.add(() => subscription.unsubscribe());
  };
  listen(subjects.work(id), (message) => worker.onWork(message));
  listen(subjects.cancel(id), (message) => worker.onCancel(message));
  if (info.kvEvents) listen(subjects.kvSync(id), (message) => worker.onKvSync(message));
  const frontends = await watchFrontends(
    await bus.bucket(buckets.instances),
    (frontendId) => worker.onFrontendGone(frontendId),
    onBadLease,
  );
  closers.add(() => frontends.stop());
  const expiry = setInterval(() => worker.intake.expire(), EXPIRE_EVERY_MS);
  closers.add(() => clearInterval(expiry));
  context.updateInstance({ worker: info });
  const hint = context.role === 'prefill' ? unreachableHint(config) : undefined;
  if (hint !== undefined) log.warn({}, hint);
  context.publishEvent('worker.joined', id, { model: info.model, engine: info.engine });
  const { model, engine, kvBlocks, blockSize } = info;
  const profile = engine === 'mock' ? { profile: config.profile } : {};
  const kvTokens = kvBlocks * blockSize;
  log.info({ model, engine, ...profile, kvBlocks, kvTokens }, 'engine started');
  return { info, links };
}

/** A prefill worker alone makes no model servable, so it publishes no card. */
async function shareCard({ context, closers }: Opening, card: ModelCard): Promise<void> {
  const { bus, buckets, id, log, role } = context;
  if (role === 'prefill') {
    await checkModelCard(bus, buckets, card, id);
    return;
  }
  await publishModelCard(bus, buckets, card, id);
  const stopListening = bus.onStatus((change) => {
    if (change !== 'reconnected') return;
    restoreModelCard(bus, buckets.models, card).catch((error: unknown) => {
      log.warn({ reason: messageOf(error) }, 'the model card could not be restored');
    });
  });
  closers.add(stopListening);
}

/** Decode workers measure the way to a prefill worker; engines that move KV by themselves answer no such question. */
async function openProbeServer(opening: Opening): Promise<TransferServer | undefined> {
  const { context, config, closers, setup, started } = opening;
  const isAsked = context.role === 'prefill' && setup.needsProbeServer;
  if (!isAsked || started.transfer === undefined || started.transfer.endpoint !== undefined) {
    return undefined;
  }
  const server = await createTransferServer(transferAddress(config));
  closers.add(() => server.close());
  return server;
}

async function openLinks(
  { context, closers }: Opening,
  info: WorkerInfo,
  onBadLease: LeaseProblemListener,
): Promise<Links | undefined> {
  if (context.role !== 'decode' || info.transfer === undefined) return undefined;
  const tries = { probe: probeLink, warmUp: createWarmUp(context, info) };
  const links = await Links.start(context, info, info.transfer, tries, onBadLease);
  createLinkMetrics(context.registry, () => links.view());
  closers.add(() => links.stop());
  return links;
}

function withEndpoint(info: WorkerInfo, endpoint: string | undefined): WorkerInfo {
  if (info.transfer === undefined || endpoint === undefined) return info;
  return { ...info, transfer: { ...info.transfer, endpoint } };
}

function createEngineMetrics(context: ServiceContext, engine: Engine): () => Promise<string> {
  const { registry, clock, id, role } = context;
  const taken = (family: string): boolean => registry.getSingleMetric(family) !== undefined;
  const page = new EngineMetrics({ engine, clock, labels: { worker: id, role }, taken });
  return () => page.text();
}
