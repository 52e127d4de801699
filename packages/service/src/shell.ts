import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import {
  bucketNames,
  createSubjects,
  type Instance,
  PROTOCOL_VERSION,
  type Role,
} from '@busbar/protocol';
import { createRegistry, createTracer, type Logger } from '@busbar/telemetry';
import type { Registry } from 'prom-client';
import { type AdminServer, startAdminServer } from './admin-server.ts';
import type { BaseConfig } from './base-config.ts';
import { createBusMetrics } from './bus-metrics.ts';
import { logBusChanges } from './connect.ts';
import { EventPublisher } from './events.ts';
import type { Readiness, Service, ServiceContext, ServiceFactory } from './port.ts';
import { shellChecks, summarize } from './readiness.ts';
import { type Registration, register } from './registration.ts';
import { newEpoch, randomRng, systemClock } from './system.ts';

const READY_POLL_MS = 50;
const STEP_LIMIT_MS = 3_000;

export interface ShellOptions<Config extends BaseConfig> {
  role: Role;
  id: string;
  config: Config;
  create: ServiceFactory<Config>;
  bus: Bus;
  log: Logger;
  otlpEndpoint?: string;
  /** Fires when the process is to stop; a start that still runs is told. */
  stopping?: AbortSignal;
  /** The bus was closed, and not by `shutdown`. */
  onBusLost?: () => void;
}

/** A process's service with everything around it. */
export interface Shell {
  readonly context: ServiceContext;
  readonly adminUrl: string;
  readiness(): Readiness;
  /** Drains for at most `drainMs`, stops the service, gives back the lease and closes the bus. Idempotent. */
  shutdown(): Promise<void>;
  /** Ends the wait for running requests: `shutdown` goes on as if `drainMs` had passed. */
  hurry(): void;
}

/**
 * Starts a service on a connected bus: admin server, lease with state `starting`, then the service; `ready` follows when all its
 * checks hold. When anything of it fails, what was started is stopped again.
 */
export async function startShell<Config extends BaseConfig>(
  options: ShellOptions<Config>,
): Promise<Shell> {
  const { role, id, config, bus, log } = options;
  logBusChanges(bus, log);
  const subjects = createSubjects(config.namespace);
  const buckets = bucketNames(config.namespace);
  const registry = createRegistry({ role, id });
  createBusMetrics(registry, () => bus.counters);
  const epoch = newEpoch();
  const parts: Parts = {
    service: undefined,
    registration: undefined,
    admin: undefined,
    startDetail: 'starting',
  };
  const stopping = new AbortController();
  const impatience = new AbortController();
  bus.onStatus((change) => {
    if (change === 'closed' && !stopping.signal.aborted) options.onBusLost?.();
  });
  const tracer = await createTracer({
    endpoint: options.otlpEndpoint,
    serviceName: `busbar-${role}`,
    instanceId: id,
  });
  const readiness = (): Readiness => readinessOf(role, id, bus, parts);
  const context: ServiceContext = {
    role,
    id,
    epoch,
    namespace: config.namespace,
    subjects,
    buckets,
    bus,
    clock: systemClock,
    rng: randomRng(),
    log,
    tracer,
    registry,
    ...eventsOf(options, epoch),
    readiness,
    stopping: AbortSignal.any([stopping.signal, ...(options.stopping ? [options.stopping] : [])]),
    reportStart: (detail) => {
      parts.startDetail = detail;
    },
    updateInstance: (change) => parts.registration?.update(change),
  };
  const stop = once(() => {
    stopping.abort(new Error('the process stops'));
    return stopAll(parts, context, config.drainMs, impatience.signal);
  });
  try {
    parts.admin = await startAdmin(config, registry, readiness, parts);
    const instance = firstInstance(context, parts.admin.url);
    parts.registration = await register(await bus.bucket(buckets.instances), instance, log);
    parts.service = await options.create(context, config);
  } catch (error) {
    await stop();
    throw error;
  }
  void announceReady(parts, readiness, log);
  return {
    context,
    adminUrl: parts.admin.url,
    readiness,
    shutdown: stop,
    hurry: () => impatience.abort(),
  };
}

function eventsOf(
  { role, id, config, bus, log }: Omit<ShellOptions<BaseConfig>, 'create'>,
  epoch: number,
): Pick<ServiceContext, 'publishEvent' | 'offerEvent'> {
  const events = new EventPublisher({
    bus,
    subjects: createSubjects(config.namespace),
    clock: systemClock,
    log,
    source: `/busbar/${config.namespace}/${role}/${id}`,
    epoch,
  });
  return {
    publishEvent: (kind, subject, data) => events.publish(kind, subject, data),
    offerEvent: (kind, subject, data) => events.offer(kind, subject, data),
  };
}

function startAdmin(
  config: BaseConfig,
  registry: Registry,
  readiness: () => Readiness,
  parts: Parts,
): Promise<AdminServer> {
  return startAdminServer({
    host: config.adminHost,
    port: config.adminPort,
    registry,
    readiness,
    routes: () => parts.service?.adminRoutes ?? {},
    actions: () => parts.service?.adminActions ?? {},
    metricsText: () => parts.service?.metricsText?.() ?? Promise.resolve(''),
  });
}

interface Parts {
  service: Service | undefined;
  registration: Registration | undefined;
  admin: AdminServer | undefined;
  startDetail: string;
}

function firstInstance(context: ServiceContext, adminUrl: string): Instance {
  return {
    protocol: PROTOCOL_VERSION,
    role: context.role,
    id: context.id,
    epoch: context.epoch,
    pid: process.pid,
    host: hostname(),
    startedAt: new Date(context.clock.wallMs()).toISOString(),
    adminUrl,
    state: 'starting',
  };
}

function readinessOf(role: Role, id: string, bus: Bus, parts: Parts): Readiness {
  const state = parts.registration?.instance.state ?? 'starting';
  const checks = shellChecks({
    isStarted: parts.service !== undefined,
    busStatus: bus.status,
    isLeaseHeld: parts.registration?.isHeld ?? false,
    isDraining: state === 'draining',
    startDetail: parts.startDetail,
  });
  checks.push(...(parts.service?.checks() ?? []));
  return summarize({ role, id, state }, checks);
}

/** Moves the lease from `starting` to `ready` once, when all checks hold. */
async function announceReady(parts: Parts, readiness: () => Readiness, log: Logger): Promise<void> {
  while (parts.registration?.instance.state === 'starting') {
    if (readiness().status !== 'unready') {
      parts.registration.update({ state: 'ready' });
      log.info({ adminUrl: parts.admin?.url }, 'ready');
      return;
    }
    await sleep(READY_POLL_MS, undefined, { ref: false });
  }
}

async function stopAll(
  parts: Parts,
  context: ServiceContext,
  drainMs: number,
  impatience: AbortSignal,
): Promise<void> {
  const { log } = context;
  parts.registration?.update({ state: 'draining' });
  const service = parts.service;
  if (service !== undefined) {
    const signal = AbortSignal.any([impatience, AbortSignal.timeout(drainMs)]);
    await step('drain', drainMs + STEP_LIMIT_MS, log, () => service.drain(signal));
    await step('stop', service.stopMs ?? STEP_LIMIT_MS, log, () => service.stop());
  }
  await step('lease', STEP_LIMIT_MS, log, () => parts.registration?.release());
  await step('tracer', STEP_LIMIT_MS, log, () => context.tracer.shutdown());
  await step('bus', STEP_LIMIT_MS, log, () => context.bus.close());
  await step('admin', STEP_LIMIT_MS, log, () => parts.admin?.close());
}

/** One step of a shutdown: neither its failure nor its slowness keeps the next ones from running. */
async function step(
  name: string,
  limitMs: number,
  log: Logger,
  run: () => Promise<void> | undefined,
): Promise<void> {
  const timer = new AbortController();
  const beganMs = performance.now();
  try {
    await Promise.race([
      run(),
      sleep(limitMs, undefined, { signal: timer.signal }).then(() =>
        log.warn({ step: name, limitMs }, 'a step of the shutdown took too long'),
      ),
    ]);
  } catch (error) {
    log.warn({ step: name, reason: messageOf(error) }, 'a step of the shutdown failed');
  } finally {
    timer.abort();
    log.debug({ step: name, tookMs: Math.round(performance.now() - beganMs) }, 'shutdown');
  }
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= run());
}
