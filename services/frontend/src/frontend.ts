import { type Check, leaseProblems, type Service, type ServiceContext } from '@busbar/service';
import { loadTokenizer } from '@busbar/tokenizer';
import { AnswerHandler, type AnswerKind } from './answer-handler.ts';
import type { FrontendConfig } from './config.ts';
import { Degradations } from './degradations.ts';
import { Dispatcher } from './dispatcher.ts';
import {
  type HttpServer,
  type RouteHandler,
  type Routes,
  startHttpServer,
} from './http/http-server.ts';
import { SinkFlusher } from './http/sink-flusher.ts';
import { StatusPages } from './http/status-pages.ts';
import { createFrontendMetrics } from './metrics.ts';
import { Instances } from './models/instances.ts';
import type { LoadTokenizer } from './models/model-loader.ts';
import { ModelRegistry } from './models/model-registry.ts';

/** A running frontend; `url` is where its API listens. */
export interface Frontend extends Service {
  readonly url: string;
}

/** Builds the parts, follows the stack's leases and models, and opens the API. Rejects with SERVICE_PORT. */
export async function createFrontend(
  context: ServiceContext,
  config: FrontendConfig,
  load: LoadTokenizer = loadTokenizer,
): Promise<Frontend> {
  const { bus, subjects, buckets, clock, log } = context;
  const metrics = createFrontendMetrics(
    context.registry,
    () => dispatcher.candidateCount,
    () => dispatcher.streamCount,
  );
  const instances = new Instances(
    {
      workerGone: (workerId) => dispatcher.workers.leaseGone(workerId),
      workerRestarted: (workerId) => dispatcher.workers.restarted(workerId),
    },
    clock,
    leaseProblems(log, () => metrics.badFrame('instances')),
  );
  const dispatcher = new Dispatcher(context, metrics, {
    hasWorkers: (model, lora) => instances.readyWorkers(model, lora) > 0,
    hasOtherRouters: () => instances.routers > 1,
    readyRouters: () => instances.readyRouters,
    noPair: (model, reason) => degradations.noPair(model, reason),
  });
  const degradations = new Degradations(bus, subjects, clock);
  const registry = new ModelRegistry({ instances, load, threads: config.tokenizerThreads, log });
  const flusher = new SinkFlusher(clock, config.keepaliveMs);
  const answers = new AnswerHandler({ context, registry, dispatcher, flusher, metrics });
  const stopParts = async (): Promise<void> => {
    dispatcher.stop();
    degradations.stop();
    flusher.stop();
    instances.stop();
    await registry.stop();
  };
  let http: HttpServer;
  try {
    await instances.watch(await bus.bucket(buckets.instances));
    await registry.watch(await bus.bucket(buckets.models));
    http = await startHttpServer({
      host: config.httpHost,
      port: config.httpPort,
      reusePort: config.httpReusePort,
      routes: routesOf(answers, new StatusPages(context, registry)),
      onFault: (error) => log.error({ err: error }, 'a request handler failed'),
    });
  } catch (error) {
    await stopParts();
    throw error;
  }
  log.info({ url: http.url }, 'the API is open');
  return {
    url: http.url,
    checks: () => checksOf(registry, degradations),
    drain: (signal) => drain(answers, dispatcher, http, signal),
    async stop() {
      await http.close();
      await stopParts();
    },
  };
}

function routesOf(answers: AnswerHandler, pages: StatusPages): Routes {
  const answer =
    (kind: AnswerKind): RouteHandler =>
    (request, response) =>
      answers.handle(kind, request, response);
  return {
    exact: {
      '/v1/chat/completions': { POST: answer('chat') },
      '/v1/completions': { POST: answer('completion') },
      '/v1/models': { GET: (_, response) => pages.models(response) },
      '/health': { GET: (_, response) => pages.health(response) },
      '/live': { GET: (_, response) => pages.live(response) },
      '/ready': { GET: (_, response) => pages.ready(response) },
      '/metrics': { GET: (_, response) => pages.metrics(response) },
    },
    below: { '/v1/models/': (name, response) => pages.model(response, name) },
  };
}

function checksOf(registry: ModelRegistry, degradations: Degradations): Check[] {
  const listed = registry.listed();
  const faults = registry.faults();
  const checks: Check[] = [
    {
      name: 'models',
      ok: listed.length > 0,
      detail: faults.length > 0 ? faults.join('; ') : `${listed.length} served`,
      isDegraded: faults.length > 0,
    },
  ];
  for (const reason of degradations.reasons()) {
    checks.push({ name: 'routing', ok: true, detail: reason, isDegraded: true });
  }
  return checks;
}

/** Readiness is lost at once (the lease says so), new requests are refused, those that run may end. */
async function drain(
  answers: AnswerHandler,
  dispatcher: Dispatcher,
  http: HttpServer,
  signal: AbortSignal,
): Promise<void> {
  answers.drain();
  http.closeIdle();
  await dispatcher.drain(signal);
  await http.finish(signal);
}
