import type { Instance, WorkerLoad } from '@busbar/protocol';
import { type Cluster, isLocal } from '../clients/cluster.ts';
import { isAlive } from '../host/process-table.ts';
import { type StackProcess, type StackRole, type StackState, stackUrl } from './state.ts';

/** State of a process as `ps` tells it: what its lease says, or, without a lease, whether it runs. */
export type ProcessState = 'starting' | 'ready' | 'draining' | 'running' | 'exited';

/** One process in `ps --json`. Fields that nobody knows are absent. */
export interface ProcessView {
  /** frontend, router, decode, prefill, nats-server; supervisor and guard of a foreground `up`. */
  role: StackRole;
  /** Name of the process, as in its lease. */
  id: string;
  /** Process number on its machine. */
  pid: number;
  /** starting, ready or draining as the lease says; running without a lease; exited. */
  state: ProcessState;
  /** Started by `busbar up` of this state folder; false for processes that joined the namespace otherwise. */
  isManaged: boolean;
  /** Machine, when it is another one. */
  host?: string;
  /** HTTP port of a frontend, client port of nats-server. */
  port?: number;
  /** Where /ready, /health and /metrics are. */
  adminUrl?: string;
  /** RFC 3339. */
  startedAt?: string;
  /** What the process wrote. */
  logFile?: string;
  /** Model that a worker serves. */
  model?: string;
  /** Tokens of one KV block. */
  blockSize?: number;
  /** Blocks of the KV cache. */
  kvBlocks?: number;
  /** Blocks that hold nothing reusable. */
  freeBlocks?: number;
  /** Blocks of running requests. */
  activeBlocks?: number;
  /** Requests that run in the worker. */
  running?: number;
  /** Requests that wait in the worker. */
  waiting?: number;
}

/** What `ps --json` prints. */
export interface StackView {
  namespace: string;
  /** Of the HTTP API; null when no stack runs here. */
  url: string | null;
  natsUrl: string | null;
  processes: ProcessView[];
}

/** Joins the state file, the leases and the heartbeats. Pure but for the question whether a pid lives. */
export function viewStack(
  namespace: string,
  state: StackState | undefined,
  cluster: Cluster | undefined,
  isRunning: (entry: StackProcess) => boolean = isAlive,
): StackView {
  const instances = new Map(cluster?.instances);
  const processes: ProcessView[] = [];
  for (const entry of state?.processes ?? []) {
    const instance = instances.get(entry.id);
    instances.delete(entry.id);
    processes.push(viewManaged(entry, isRunning(entry), instance, cluster?.loads.get(entry.id)));
  }
  for (const instance of instances.values()) {
    processes.push(viewJoined(instance, cluster?.loads.get(instance.id)));
  }
  return {
    namespace,
    url: state === undefined ? null : stackUrl(state),
    natsUrl: state === undefined ? null : state.natsUrl,
    processes,
  };
}

const LOOPBACK = /^(127\.|localhost$|\[::1\]$)/;

/** True for a process of another machine whose admin port listens on loopback there: the same address means something else here. */
export function isAdminHidden({ host, adminUrl }: ProcessView): boolean {
  return host !== undefined && adminUrl !== undefined && LOOPBACK.test(new URL(adminUrl).hostname);
}

function viewManaged(
  entry: StackProcess,
  runs: boolean,
  instance: Instance | undefined,
  load: WorkerLoad | undefined,
): ProcessView {
  const { role, id, pid, port, startedAt, logFile } = entry;
  const view: ProcessView = {
    role,
    id,
    pid,
    state: runs ? (instance?.state ?? 'running') : 'exited',
    isManaged: true,
    startedAt,
  };
  if (port !== undefined) view.port = port;
  if (logFile !== undefined) view.logFile = logFile;
  if (runs && entry.adminUrl !== undefined) view.adminUrl = entry.adminUrl;
  if (runs) addInstance(view, instance, load);
  return view;
}

function viewJoined(instance: Instance, load: WorkerLoad | undefined): ProcessView {
  const { role, id, pid, startedAt } = instance;
  const view: ProcessView = { role, id, pid, state: instance.state, isManaged: false, startedAt };
  if (!isLocal(instance)) view.host = instance.host;
  addInstance(view, instance, load);
  return view;
}

function addInstance(
  view: ProcessView,
  instance: Instance | undefined,
  load: WorkerLoad | undefined,
): void {
  if (instance?.adminUrl !== undefined) view.adminUrl = instance.adminUrl;
  if (instance?.worker !== undefined) {
    view.model = instance.worker.model;
    view.blockSize = instance.worker.blockSize;
    view.kvBlocks = instance.worker.kvBlocks;
  }
  if (load !== undefined) {
    view.freeBlocks = load.freeBlocks;
    view.activeBlocks = load.activeBlocks;
    view.running = load.running;
    view.waiting = load.waiting;
  }
}
