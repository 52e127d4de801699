import { createMocker, type EngineProfile, type MockDelta, type Mocker } from '@busbar/mocker';
import type { KvBatch, WorkerInfo, WorkerLoad } from '@busbar/protocol';
import type { EventHeap } from './event-heap.ts';
import type { SimRequest, WorkerSpec } from './workload.ts';

/** The hashes that name the blocks of a request, and the seed they were made with. */
export interface BlockNames {
  hashes: Uint32Array;
  hashSeed: bigint;
}

/** What the rest of the simulation hears of a worker. */
export interface WorkerListener {
  onDeltas(worker: SimWorker, deltas: MockDelta[]): void;
  onKv(worker: SimWorker, batch: KvBatch): void;
}

export interface WorkerOptions {
  id: string;
  spec: WorkerSpec;
  model: string;
  profile: EngineProfile;
  blockSize: number;
  contextTokens: number;
  /** Whether routers hear of blocks; when not, the worker still claims that they do. */
  kvEvents: boolean;
  script: readonly Uint32Array[];
}

const EOS = 3;
const EPOCH = 1;

/** A mocker on the virtual clock: begins steps, lets their time pass, and tells what came out. */
export class SimWorker {
  readonly id: string;
  readonly epoch = EPOCH;
  readonly info: WorkerInfo;
  readonly mocker: Mocker;
  isAlive = true;
  /** Longest queue that this worker ever had. */
  maxWaiting = 0;
  readonly #heap: EventHeap;
  readonly #listener: WorkerListener;
  readonly #kvEvents: boolean;
  #isStepping = false;
  #kvSequence = 0;

  constructor(options: WorkerOptions, heap: EventHeap, listener: WorkerListener) {
    const { spec, profile } = options;
    this.id = options.id;
    this.#heap = heap;
    this.#listener = listener;
    this.#kvEvents = options.kvEvents;
    this.mocker = createMocker({
      blockSize: options.blockSize,
      kvBlocks: spec.kvBlocks,
      contextTokens: options.contextTokens,
      profile,
      speed: spec.speed,
      script: options.script,
      eosTokenIds: [EOS],
    });
    this.info = {
      model: options.model,
      engine: 'mock',
      engineVersion: 'simulated',
      blockSize: options.blockSize,
      kvBlocks: spec.kvBlocks,
      role: 'decode',
      dpRanks: 1,
      contextTokens: this.mocker.contextTokens,
      maxRunning: profile.maxRunning,
      kvEvents: true,
      prefillTokensPerMs: profile.prefillTokensPerMs * spec.speed,
      decodeStepMs: profile.decodeStepMs / spec.speed,
    };
  }

  submit(key: number, request: SimRequest, names: BlockNames): void {
    const { tokens, maxTokens, ignoreEos, seed } = request;
    const fixed = { minTokens: 0, stopTokenIds: [] };
    this.mocker.submit({ key, tokens, maxTokens, ignoreEos, seed, ...names, ...fixed });
    this.#begin();
  }

  /** The worker's process is gone: it never says anything again. */
  kill(): void {
    this.isAlive = false;
  }

  load(): WorkerLoad {
    return {
      ...this.mocker.load(),
      epoch: this.epoch,
      state: 'ready',
      kvBlocks: this.info.kvBlocks,
      kvSequence: this.#kvSequence,
    };
  }

  /** The whole block set, as a router asks for it; a worker that tells nothing of its blocks answers that it has none. */
  snapshot(): { epoch: number; sequence: number; hashes: Uint32Array } {
    const hashes = this.#kvEvents ? this.mocker.blocks() : new Uint32Array(0);
    return { epoch: this.epoch, sequence: this.#kvSequence, hashes };
  }

  #begin(): void {
    if (this.#isStepping || !this.isAlive) return;
    const plan = this.mocker.beginStep(this.#heap.nowMs);
    if (plan === undefined) return;
    this.#isStepping = true;
    this.maxWaiting = Math.max(this.maxWaiting, this.mocker.load().waiting);
    this.#heap.after(plan.durationMs, () => this.#end());
  }

  #end(): void {
    this.#isStepping = false;
    if (!this.isAlive) return;
    const { deltas, kv } = this.mocker.endStep(this.#heap.nowMs);
    if (kv.length > 0 && this.#kvEvents) {
      const sequence = ++this.#kvSequence;
      const batch: KvBatch = { epoch: EPOCH, sequence, dpRank: 0, tier: 'device', changes: kv };
      this.#listener.onKv(this, batch);
    }
    if (deltas.length > 0) this.#listener.onDeltas(this, deltas);
    this.#begin();
  }
}
