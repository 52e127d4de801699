import type { Clock, Rng } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import type { BucketNames, EventKind, Instance, Role, Subjects } from '@busbar/protocol';
import type { Logger, Tracer } from '@busbar/telemetry';
import type { Registry } from 'prom-client';
import type { AdminAction } from './admin-action.ts';

/** What the shell gives to every service. */
export interface ServiceContext {
  role: Role;
  id: string;
  /** Differs for every start of a process. */
  epoch: number;
  namespace: string;
  subjects: Subjects;
  buckets: BucketNames;
  bus: Bus;
  clock: Clock;
  rng: Rng;
  log: Logger;
  tracer: Tracer;
  /** Served on /metrics of the admin port; every metric is named `busbar_<role>_<noun>_<unit>`. */
  registry: Registry;
  /** Publishes a CloudEvent on `event.<kind>`; never throws. */
  publishEvent(kind: EventKind, subject: string, data: Record<string, unknown>): void;
  /** For events of every request: as `publishEvent`, but only while somebody listens; `data` is not called otherwise. */
  offerEvent(kind: EventKind, subject: string, data: () => Record<string, unknown>): void;
  /** What `/ready` says now: the service's own checks, the bus and the lease. */
  readiness(): Readiness;
  /** Fires when the process is to stop, also while `create` still runs: a start that takes long ends then and rejects. */
  stopping: AbortSignal;
  /** While `create` runs: what it is at, in words. `/ready` shows it. */
  reportStart(phase: string): void;
  /** Changes what the lease in bucket `instances` says; the shell keeps the lease itself. */
  updateInstance(change: Partial<Pick<Instance, 'worker' | 'state'>>): void;
}

export interface Check {
  name: string;
  ok: boolean;
  detail: string;
  /** Serves, but worse than it should: `/ready` stays 200 and says `degraded` with this detail. Only with `ok`. */
  isDegraded?: boolean;
}

/** Body of `/ready`. `unready` is HTTP 503; `degraded` is 200. */
export interface Readiness {
  status: 'ready' | 'degraded' | 'unready';
  role: Role;
  id: string;
  state: Instance['state'];
  checks: Check[];
}

/** A running service, as the shell drives it. */
export interface Service {
  /** Ready when all checks hold. Called for /ready; must be cheap. */
  checks(): Check[];
  /** More GET routes of the admin port: path to a function whose result is sent as JSON. */
  readonly adminRoutes?: Readonly<Record<string, () => unknown>>;
  /** POST routes of the admin port: path to what it does. */
  readonly adminActions?: Readonly<Record<string, AdminAction>>;
  /** More Prometheus text for `/metrics`. Must have a limit of its own; when it rejects the page goes without it. */
  metricsText?(): Promise<string>;
  /** How long `stop` may take, in ms; 3 s when absent. */
  readonly stopMs?: number;
  /** Take no new work, finish what runs. Resolves when nothing is left or `signal` fires. */
  drain(signal: AbortSignal): Promise<void>;
  /** Release everything at once. */
  stop(): Promise<void>;
}

/** `createX`: builds and starts a service on its context. */
export type ServiceFactory<Config> = (context: ServiceContext, config: Config) => Promise<Service>;
