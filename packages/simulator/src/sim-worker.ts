import { createMocker, type EngineProfile, type MockDelta, type Mocker } from '@busbar/mocker';
import type { KvBatch, TransferInfo, WorkerInfo, WorkerLoad } from '@busbar/protocol';
import type { EventHeap } from './event-heap.ts';
import { type FetchPeer, SimFetches, type SimKvSource } from './transfer/sim-fetches.ts';
import type { SimLinks } from './transfer/sim-links.ts';
import type { SimNetwork } from './transfer/sim-network.ts';
import { SimStaged } from './transfer/sim-staged.ts';
import type { SimRequest, WorkerSpec } from './workload.ts';

/** The hashes that name the blocks of a request, and the seed they were made with. */
export interface BlockNames {
  hashes: Uint32Array;
  hashSeed: bigint;
}

/** What a request is to its worker beside a whole one: a prompt to keep for others, or one whose KV waits elsewhere. */
export type KvPart = { kind: 'stage' } | { kind: 'fetch'; source: SimKvSource };

/** What the rest of the simulation hears of a worker. */
export interface WorkerListener {
  onDeltas(worker: SimWorker, deltas: MockDelta[]): void;
  onKv(worker: SimWorker, batch: KvBatch): void;
}

/** How a worker exchanges KV. */
export interface WorkerTransfer {
  network: SimNetwork;
  links: SimLinks;
  kvBytesPerToken: number;
  peer: (id: string) => FetchPeer | undefined;
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
  transfer?: WorkerTransfer | undefined;
}

const EOS = 3;
const EPOCH = 1;

/** A mocker on the virtual clock: begins steps, lets their time pass, and tells what came out. */
export class SimWorker {
  readonly id: string;
  readonly host: string;
  readonly epoch = EPOCH;
  readonly info: WorkerInfo;
  readonly mocker: Mocker;
  /** Prompts that wait here for a decode worker. */
  readonly staged: SimStaged;
  readonly links: SimLinks | undefined;
  isAlive = true;
  /** Longest queue that this worker ever had. */
  maxWaiting = 0;
  readonly #heap: EventHeap;
  readonly #listener: WorkerListener;
  readonly #spec: WorkerSpec;
  readonly #kvEvents: boolean;
  readonly #blockBytes: number;
  readonly #fetches: SimFetches | undefined;
  readonly #staging = new Set<number>();
  #isStepping = false;
  #kvSequence = 0;

  constructor(options: WorkerOptions, heap: EventHeap, listener: WorkerListener) {
    const { spec, profile, transfer } = options;
    this.id = options.id;
    this.host = spec.host ?? options.id;
    this.#heap = heap;
    this.#listener = listener;
    this.#spec = spec;
    this.#kvEvents = options.kvEvents;
    this.#blockBytes = options.blockSize * (transfer?.kvBytesPerToken ?? 0);
    this.mocker = createMocker({
      blockSize: options.blockSize,
      kvBlocks: spec.kvBlocks,
      contextTokens: options.contextTokens,
      profile,
      speed: spec.speed,
      script: options.script,
      eosTokenIds: [EOS],
    });
    this.info = describe(options, this.mocker.contextTokens, this.host);
    this.links = transfer?.links;
    this.staged = new SimStaged(heap, (key) => {
      this.mocker.releaseStaged(key);
      this.#begin();
    });
    if (transfer !== undefined) this.#fetches = this.#createFetches(transfer);
  }

  /** False when the worker takes no work now. */
  submit(key: number, request: SimRequest, names: BlockNames, part?: KvPart): boolean {
    if (this.#refuses()) return false;
    const { tokens, maxTokens, ignoreEos, seed } = request;
    const fixed = { minTokens: 0, stopTokenIds: [] };
    const kv = { stagesKv: part?.kind === 'stage', fetchesKv: part?.kind === 'fetch' };
    if (part?.kind === 'stage') this.#staging.add(key);
    if (part?.kind === 'fetch') this.#fetches?.expect(key, part.source);
    this.mocker.submit({ key, tokens, maxTokens, ignoreEos, seed, ...names, ...fixed, ...kv });
    this.#begin();
    return true;
  }

  /** Ends a request, or gives up the KV that it has staged. */
  abort(key: number): void {
    if (!this.isAlive || this.staged.release(key)) return;
    this.#fetches?.forget(key);
    this.mocker.abort(key);
    this.#begin();
  }

  /** The worker's process is gone: it never says anything again. */
  kill(): void {
    this.isAlive = false;
    this.#fetches?.stop();
  }

  /** The process of another worker is gone. */
  onPeerDied(id: string): void {
    if (this.isAlive) this.#fetches?.onPeerDied(id);
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

  #createFetches({ network, links, peer }: WorkerTransfer): SimFetches {
    return new SimFetches({
      heap: this.#heap,
      network,
      links,
      host: this.host,
      peer,
      ended: (key, failure) => {
        if (failure === undefined) this.mocker.kvArrived(key);
        else this.mocker.kvFailed(key, failure);
        this.#begin();
      },
    });
  }

  #refuses(): boolean {
    const { refusesMs } = this.#spec;
    if (refusesMs === undefined) return false;
    const [fromMs, untilMs] = refusesMs;
    return this.#heap.nowMs >= fromMs && this.#heap.nowMs < untilMs;
  }

  #begin(): void {
    if (this.#isStepping || !this.isAlive) return;
    const plan = this.mocker.beginStep(this.#heap.nowMs);
    if (plan === undefined) return;
    this.#isStepping = true;
    this.maxWaiting = Math.max(this.maxWaiting, this.mocker.load().waiting);
    this.#heap.after(plan.durationMs, () => this.#end());
    for (const { key, blocks } of plan.fetches)
      this.#fetches?.start(key, blocks * this.#blockBytes);
  }

  #end(): void {
    this.#isStepping = false;
    if (!this.isAlive) return;
    const { deltas, kv } = this.mocker.endStep(this.#heap.nowMs);
    for (const { key, finish } of deltas) {
      if (finish === 'none' || !this.#staging.delete(key)) continue;
      if (finish === 'stop' || finish === 'length') this.staged.add(key);
    }
    if (kv.length > 0 && this.#kvEvents) {
      const sequence = ++this.#kvSequence;
      const batch: KvBatch = { epoch: EPOCH, sequence, dpRank: 0, tier: 'device', changes: kv };
      this.#listener.onKv(this, batch);
    }
    if (deltas.length > 0) this.#listener.onDeltas(this, deltas);
    this.#begin();
  }
}

/** What the worker registers with. The transfer is announced as that of a mock engine: over TCP, under the name of its host. */
function describe(options: WorkerOptions, contextTokens: number, host: string): WorkerInfo {
  const { spec, profile, transfer } = options;
  const info: WorkerInfo = {
    model: options.model,
    engine: 'mock',
    engineVersion: 'simulated',
    blockSize: options.blockSize,
    kvBlocks: spec.kvBlocks,
    role: spec.role ?? 'decode',
    dpRanks: 1,
    contextTokens,
    maxRunning: profile.maxRunning,
    kvEvents: true,
    prefillTokensPerMs: profile.prefillTokensPerMs * spec.speed,
    decodeStepMs: profile.decodeStepMs / spec.speed,
  };
  if (transfer === undefined) return info;
  const { kvBytesPerToken } = transfer;
  const revision = { engine: 'mock', version: 'simulated', model: options.model };
  const announced: TransferInfo = {
    protocol: 'tcp',
    revision,
    kvBytesPerToken,
    endpoint: `${host}:7000`,
  };
  return { ...info, transfer: announced };
}
