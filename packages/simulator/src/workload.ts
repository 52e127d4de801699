/** One request of a workload. */
export interface SimRequest {
  tokens: Uint32Array;
  maxTokens: number;
  /** Whether the answer goes on to `maxTokens`; otherwise it may end by itself. */
  ignoreEos: boolean;
  /** Decides the text and the natural length of the answer. */
  seed: number;
  /** Whether most of the prompt was asked before, so that a cache could have it. */
  isRepeat: boolean;
  /** The workload's own mark, handed back when the request ends. */
  tag: number;
}

export interface Arrival {
  /** Milliseconds since the workload began. */
  atMs: number;
  request: SimRequest;
}

export interface FinishedRequest {
  request: SimRequest;
  outputTokens: readonly number[];
  /** Milliseconds since the workload began. */
  atMs: number;
}

/** What clients do, once: arrivals that do not depend on answers, and those that do. */
export interface Workload {
  /** Sorted by time; pulled one ahead, so it may be long. */
  arrivals(): Iterator<Arrival>;
  /** Called when a request ended, in whatever way; answers what is asked because of it. */
  onFinished(finished: FinishedRequest): Arrival[];
}

export interface WorkerSpec {
  /** What it is for; `decode` by default, which is a worker for whole requests. */
  role?: 'decode' | 'prefill';
  /** Workers of one name share a network interface; by default each has its own. */
  host?: string;
  kvBlocks: number;
  /** Against the profile; 2 halves all times. */
  speed: number;
  /** When it appears, 0 by default. */
  joinMs?: number;
  /** When it dies, by default never. */
  killMs?: number;
  /** From when until when it refuses all work, in milliseconds of the virtual clock; by default never. */
  refusesMs?: readonly [number, number];
}

export interface WorkloadOptions {
  seed: number;
  workers: readonly WorkerSpec[];
  /** How long an open loop asks, in place of its own time. */
  durationMs?: number | undefined;
}

/** A workload that can be made again and again: equal options give equal requests. */
export interface WorkloadDefinition {
  name: string;
  /** One line for a person. */
  title: string;
  /** The workers it is meant for. */
  workers: readonly WorkerSpec[];
  create(options: WorkloadOptions): Workload;
}

/** What the workers can do together, in workers of speed 1. */
export function totalSpeed(workers: readonly WorkerSpec[]): number {
  return workers.reduce((sum, worker) => sum + worker.speed, 0);
}

/** So many equal workers. */
export function equalWorkers(count: number, kvBlocks: number): WorkerSpec[] {
  return Array.from({ length: count }, () => ({ kvBlocks, speed: 1 }));
}

const NOTHING: Arrival[] = [];

/** A workload whose arrivals do not depend on answers. */
export function openLoop(arrivals: () => Iterator<Arrival>): Workload {
  return { arrivals, onFinished: () => NOTHING };
}
