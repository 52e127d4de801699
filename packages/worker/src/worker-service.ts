import { messageOf } from '@busbar/base';
import type { BusMessage, Subscription } from '@busbar/bus';
import type { Check, Service, ServiceContext } from '@busbar/service';
import type { WorkerConfig } from './config.ts';
import { setUpEngine } from './engine-setup.ts';
import { FrontendWatch } from './frontend-watch.ts';
import { LoadReporter } from './load-reporter.ts';
import { createWorkerMetrics } from './metrics.ts';
import { publishModelCard, restoreModelCard } from './model-card.ts';
import { Worker } from './worker.ts';

const EXPIRE_EVERY_MS = 2_000;

/** A worker: hosts one engine, takes requests from frontends and tells routers of its load and its KV cache. */
export async function createWorkerService(
  context: ServiceContext,
  config: WorkerConfig,
): Promise<Service> {
  const { bus, subjects, buckets, id, log } = context;
  const { engine, card } = await setUpEngine(context, config);
  await publishModelCard(bus, buckets, card, id);

  let fault: Error | undefined;
  const metrics = createWorkerMetrics(context.registry, context.role, () => engine.load());
  const worker = new Worker(context, engine, metrics, (error) => {
    fault = error;
    // An engine that failed does not come back: the process ends, and whoever supervises it starts another.
    setImmediate(() => {
      throw error;
    });
  });
  const info = await engine.start(worker, new AbortController().signal);
  const reporter = new LoadReporter(
    () => worker.facts(),
    (data) => {
      // A heartbeat that would arrive late is worse than none.
      if (bus.status === 'connected') bus.publish(subjects.load(id), data);
    },
  );
  worker.open(info, {
    onDrain: () => reporter.send(),
    onInfo: (now) => context.updateInstance({ worker: now }),
  });
  const subscriptions: Subscription[] = [
    bus.subscribe(subjects.work(id), (message: BusMessage) => worker.onWork(message)),
    bus.subscribe(subjects.cancel(id), (message: BusMessage) => worker.onCancel(message)),
  ];
  if (info.kvEvents) {
    subscriptions.push(
      bus.subscribe(subjects.kvSync(id), (message: BusMessage) => worker.onKvSync(message)),
    );
  }
  const frontends = await FrontendWatch.start(await bus.bucket(buckets.instances), (frontendId) =>
    worker.onFrontendGone(frontendId),
  );
  const expiry = setInterval(() => worker.intake.expire(), EXPIRE_EVERY_MS);
  const stopListening = bus.onStatus((change) => {
    if (change !== 'reconnected') return;
    restoreModelCard(bus, buckets.models, card).catch((error: unknown) => {
      log.warn({ reason: messageOf(error) }, 'the model card could not be restored');
    });
  });
  context.updateInstance({ worker: info });
  context.publishEvent('worker.joined', id, { model: info.model, engine: info.engine });
  log.info(
    { model: info.model, profile: config.profile, kvBlocks: info.kvBlocks },
    'engine started',
  );

  return {
    checks: (): Check[] => [
      { name: 'engine', ok: fault === undefined, detail: fault?.message ?? `${info.engine} runs` },
    ],
    drain: async (signal) => {
      log.info({ running: worker.running }, 'draining');
      await worker.drain(signal);
      if (worker.running > 0) log.warn({ running: worker.running }, 'the drain limit is reached');
    },
    stop: async () => {
      for (const subscription of subscriptions) subscription.unsubscribe();
      stopListening();
      frontends.stop();
      clearInterval(expiry);
      reporter.stop();
      await worker.stop();
      context.publishEvent('worker.left', id, { model: info.model, reason: 'stopped' });
    },
  };
}
