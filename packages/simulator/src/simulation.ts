import { assert, createRng } from '@busbar/base';
import type { EngineProfile } from '@busbar/mocker';
import type { PolicyName, RouterCore, SplitRecord } from '@busbar/routing';
import { EventHeap } from './event-heap.ts';
import type { RequestRecord } from './request-record.ts';
import { SimFrontend } from './sim-frontend.ts';
import { SimRouter, type TransferEffect } from './sim-router.ts';
import { SimWorker, type WorkerListener } from './sim-worker.ts';
import type { Timing } from './timing.ts';
import { Fabric, type FabricOptions } from './transfer/fabric.ts';
import type { Arrival, SimRequest, WorkerSpec, Workload } from './workload.ts';
import { randomTokens } from './workloads/text.ts';

export interface SimulationOptions {
  workload: Workload;
  workers: readonly WorkerSpec[];
  policy: PolicyName;
  seed: number;
  profile: EngineProfile;
  routers: number;
  blockSize: number;
  contextTokens: number;
  kvEvents: boolean;
  timing: Timing;
  /** What KV moves over; absent: no worker can exchange any. */
  fabric?: FabricOptions | undefined;
  /** Makes the router core under test. */
  createRouter(routerId: string, policy: PolicyName, seed: number): RouterCore;
}

/** Everything that happened in one run, for the checker and the report. */
export interface SimulationRun {
  records: readonly RequestRecord[];
  workers: readonly SimWorker[];
  routers: readonly RouterCore[];
  /** Changes of what routers believe of a worker's cache. */
  truthChanges: readonly string[];
  /** Every comparison of a split with a whole request. */
  decisions: readonly SplitRecord[];
  /** Every transfer of KV that ended with a first token. */
  transfers: readonly TransferEffect[];
  fabric: Fabric | undefined;
  /** False when requests were still open after a long time without any progress. */
  isFinished: boolean;
  /** When all was quiet again, on the clock that the routers were told of. */
  endedAtMs: number;
}

const MODEL = 'simulated';
/** Workers join and are known before the workload begins. */
const START_MS = 500;
/** After the last end: heartbeats, speculative entries and leases come to rest. */
const QUIET_MS = 10_000;
/** Without an end of any request for this long, the rest hangs. */
const STUCK_MS = 120_000;
const SCRIPT_PIECES = 16;

/** Runs a workload to its end and then until all is quiet. Equal options give an equal run. */
export function simulate(options: SimulationOptions): SimulationRun {
  return new Simulation(options).run();
}

class Simulation implements WorkerListener {
  readonly #options: SimulationOptions;
  readonly #heap = new EventHeap();
  readonly #workers = new Map<string, SimWorker>();
  readonly #routers: SimRouter[];
  readonly #frontend: SimFrontend;
  readonly #records: RequestRecord[] = [];
  readonly #truthChanges: string[] = [];
  readonly #decisions: SplitRecord[] = [];
  readonly #transfers: TransferEffect[] = [];
  readonly #fabric: Fabric | undefined;
  readonly #arrivals: Iterator<Arrival>;
  readonly #script: readonly Uint32Array[];
  #planned = 0;
  #open = 0;
  #lastEndMs = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
    const rng = createRng(options.seed);
    this.#script = Array.from({ length: SCRIPT_PIECES }, () => randomTokens(rng, 12));
    const worker = (id: string): SimWorker | undefined => this.#workers.get(id);
    const heap = this.#heap;
    this.#routers = Array.from({ length: options.routers }, (_, i) => {
      const core = options.createRouter(`router-${i}`, options.policy, rng.u32());
      return new SimRouter(core, {
        heap,
        hopMs: options.timing.hopMs,
        worker,
        reply: (key, reply) => this.#frontend.onReply(key, reply),
        truthChanged: (workerId, change) => this.#truthChanges.push(`${workerId} ${change}`),
        decided: (record) => this.#decisions.push(record),
        transferred: (transfer) => this.#transfers.push(transfer),
      });
    });
    if (options.fabric !== undefined) this.#fabric = this.#createFabric(options.fabric);
    this.#frontend = new SimFrontend({
      heap,
      timing: options.timing,
      model: MODEL,
      blockSize: options.blockSize,
      routers: this.#routers,
      worker,
      ended: (_, request, outputTokens) => this.#onEnded(request, outputTokens),
    });
    this.#arrivals = options.workload.arrivals();
  }

  run(): SimulationRun {
    this.#options.workers.forEach((spec, i) => this.#planWorker(`worker-${i}`, spec, i));
    this.#planNextArrival();
    const heap = this.#heap;
    const isOpen = (): boolean => this.#open + this.#planned > 0;
    while (isOpen() && heap.nowMs - this.#lastEndMs < STUCK_MS && heap.step());
    const isFinished = !isOpen();
    const quietAtMs = heap.nowMs + QUIET_MS;
    while (heap.nowMs < quietAtMs && heap.step());
    return {
      records: this.#records,
      workers: [...this.#workers.values()],
      routers: this.#routers.map((router) => router.core),
      truthChanges: this.#truthChanges,
      decisions: this.#decisions,
      transfers: this.#transfers,
      fabric: this.#fabric,
      isFinished,
      endedAtMs: heap.nowMs,
    };
  }

  #createFabric(options: FabricOptions): Fabric {
    const each = (run: (router: SimRouter) => void): void => {
      for (const router of this.#routers) {
        this.#heap.after(this.#options.timing.hopMs, () => run(router));
      }
    };
    return new Fabric(options, this.#heap, {
      worker: (id) => this.#workers.get(id),
      record: (record) => each((router) => router.link(record)),
      gone: (prefill, decode) => each((router) => router.linkGone(prefill, decode)),
    });
  }

  onKv(worker: SimWorker, batch: Parameters<WorkerListener['onKv']>[1]): void {
    for (const router of this.#routers) {
      this.#heap.after(this.#options.timing.kvDelayMs, () => router.kv(worker.id, batch));
    }
  }

  onDeltas(worker: SimWorker, deltas: Parameters<WorkerListener['onDeltas']>[1]): void {
    this.#heap.after(this.#options.timing.hopMs, () => this.#frontend.onDeltas(worker, deltas));
  }

  #planWorker(id: string, spec: WorkerSpec, index: number): void {
    const { model, ...rest } = { model: MODEL, ...this.#options };
    const script = this.#script;
    const transfer = this.#fabric?.transferOf(id);
    const own = { id, spec, model, script, transfer };
    const worker = new SimWorker({ ...rest, ...own }, this.#heap, this);
    const joinMs = spec.joinMs === undefined ? 0 : START_MS + spec.joinMs;
    const { loadIntervalMs } = this.#options.timing;
    this.#heap.at(joinMs, () => {
      this.#workers.set(id, worker);
      for (const router of this.#routers) router.join(worker);
      this.#fabric?.onJoined(worker);
      this.#beat(worker);
    });
    // Real workers do not beat in step.
    const phaseMs = (loadIntervalMs * index) / this.#options.workers.length;
    this.#heap.at(joinMs + phaseMs, () => this.#beatOn(worker));
    if (spec.killMs !== undefined) this.#planDeath(worker, START_MS + spec.killMs);
  }

  #planDeath(worker: SimWorker, atMs: number): void {
    const { detectMs, leaseTtlMs } = this.#options.timing;
    this.#heap.at(atMs, () => {
      worker.kill();
      for (const other of this.#workers.values()) other.onPeerDied(worker.id);
    });
    this.#heap.at(atMs + detectMs, () => this.#frontend.onWorkerSilent(worker.id));
    this.#heap.at(atMs + leaseTtlMs, () => {
      this.#workers.delete(worker.id);
      for (const router of this.#routers) router.leave(worker.id);
      this.#fabric?.onLeft(worker.id);
    });
  }

  #beatOn(worker: SimWorker): void {
    if (!worker.isAlive) return;
    this.#beat(worker);
    this.#heap.after(this.#options.timing.loadIntervalMs, () => this.#beatOn(worker));
  }

  #beat(worker: SimWorker): void {
    const load = worker.load();
    for (const router of this.#routers) {
      this.#heap.after(this.#options.timing.hopMs, () => router.load(worker, load));
    }
  }

  /** Static arrivals are pulled one ahead, so that a long workload never lies in memory whole. */
  #planNextArrival(): void {
    const next = this.#arrivals.next();
    if (next.done === true) return;
    this.#plan(next.value, () => this.#planNextArrival());
  }

  #plan({ atMs, request }: Arrival, then?: () => void): void {
    this.#planned++;
    this.#heap.at(START_MS + atMs, () => {
      this.#planned--;
      this.#open++;
      this.#records.push(this.#frontend.accept(request));
      then?.();
    });
  }

  #onEnded(request: SimRequest, outputTokens: readonly number[]): void {
    this.#open--;
    this.#lastEndMs = this.#heap.nowMs;
    const atMs = this.#heap.nowMs - START_MS;
    assert(atMs >= 0, 'requests end after they began');
    for (const arrival of this.#options.workload.onFinished({ request, outputTokens, atMs })) {
      this.#plan(arrival);
    }
  }
}
