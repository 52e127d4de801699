import type { KvIndex } from '@busbar/kv-index';
import { TIERS, type Tier, type WorkerInfo, type WorkerLoad } from '@busbar/protocol';
import { ApproximateCache } from './approximate-cache.ts';
import type { Booking } from './booking.ts';
import { TruthLedger } from './cache-truth.ts';
import { KvStream } from './kv-stream.ts';
import { LearnedRate } from './learned-rate.ts';
import type { ReuseStats } from './reuse-stats.ts';
import type { SlotPool } from './slot-pool.ts';
import type { CacheTruth } from './types.ts';
import { WorkingSet } from './working-set.ts';

/** Requests that a worker has according to the bookings; equal to their sums at any time. */
export interface BookedLoad {
  requests: number;
  /** Those that have their first token. */
  decoding: number;
  /** Prompt tokens still to be computed, cached ones not counted. */
  prefillTokens: number;
  /** Tokens that running requests add to the cache: uncached prompt and expected output. */
  kvTokens: number;
  /** Bookings without a first token, oldest first: the engine works on the head. */
  oldestPrefill: Booking | undefined;
  newestPrefill: Booking | undefined;
  /** When the head became the head. */
  headSinceMs: number;
}

/** What rows of one router share, and how a new one begins. */
export interface SharedParts {
  index: KvIndex;
  owners: SlotPool;
  reuse: ReuseStats;
  truth: CacheTruth;
  reason: string;
  nowMs: number;
}

/** All that the router knows of one worker. The table owns the row; each field has one owner that writes it. */
export class WorkerRow {
  readonly workerId: string;
  /** Small integer of this row, reused after it left. */
  readonly slot: number;
  readonly info: WorkerInfo;
  readonly capacityBlocks: number;
  epoch: number;
  load: WorkerLoad | undefined;
  heardMs: number;
  isDraining = false;
  /** Its block set was fetched once, or cannot be: placements may go there. */
  isReady = false;
  /** Snapshots in a row that left a gap. */
  syncAttempts = 0;
  readonly stream: KvStream;
  readonly truth: TruthLedger;
  /** The router's own guess; kept only while it is needed. */
  approximate: ApproximateCache | undefined;
  readonly workingSet: WorkingSet;
  /** Shared by all workers of the model. */
  readonly reuse: ReuseStats;
  readonly prefillRate: LearnedRate;
  readonly decodeStepMs: LearnedRate;
  /** From booking to end of a request. */
  readonly serviceMs: LearnedRate;
  readonly booked: BookedLoad = {
    requests: 0,
    decoding: 0,
    prefillTokens: 0,
    kvTokens: 0,
    oldestPrefill: undefined,
    newestPrefill: undefined,
    headSinceMs: 0,
  };
  /** Owners whose overlap counts now: one a rank on the device, the router's own guess, or none. */
  deviceOwners: number[] = [];
  lowerOwners: number[] = [];
  readonly #index: KvIndex;
  readonly #owners: SlotPool;
  /** Owner of rank × tiers + tier. */
  readonly #eventOwners = new Map<number, number>();

  constructor(
    workerId: string,
    slot: number,
    epoch: number,
    info: WorkerInfo,
    shared: SharedParts,
  ) {
    this.workerId = workerId;
    this.slot = slot;
    this.epoch = epoch;
    this.info = info;
    this.heardMs = shared.nowMs;
    this.capacityBlocks = info.kvBlocks * info.dpRanks;
    this.stream = new KvStream(epoch);
    this.truth = new TruthLedger(shared.truth, shared.reason);
    this.reuse = shared.reuse;
    this.workingSet = new WorkingSet(this.capacityBlocks, shared.reuse);
    this.prefillRate = new LearnedRate(info.prefillTokensPerMs);
    this.decodeStepMs = new LearnedRate(Math.max(info.decodeStepMs, 1e-3));
    this.serviceMs = new LearnedRate(Math.max(1, info.decodeStepMs * 64));
    this.#index = shared.index;
    this.#owners = shared.owners;
    this.refreshOwners();
  }

  /** Blocks indexed of this worker, from events and from guesses. */
  get indexedBlocks(): number {
    let blocks = 0;
    for (const owner of this.ownerIds) blocks += this.#index.blocksOf(owner);
    return blocks;
  }

  get ownerIds(): number[] {
    const events = [...this.#eventOwners.values()];
    return this.approximate === undefined ? events : [this.approximate.owner, ...events];
  }

  /** The index owner of a rank and tier of this worker; taken at first use. */
  eventOwner(dpRank: number, tier: Tier): number {
    const key = dpRank * TIERS.length + TIERS.indexOf(tier);
    const known = this.#eventOwners.get(key);
    if (known !== undefined) return known;
    const owner = this.#owners.take();
    this.#eventOwners.set(key, owner);
    this.refreshOwners();
    return owner;
  }

  /** Drops what events said; the owners stay. */
  clearEvents(): void {
    for (const owner of this.#eventOwners.values()) this.#index.clear(owner);
  }

  /** Leaves nothing in the index and gives the owners back. */
  dispose(): void {
    this.clearEvents();
    for (const owner of this.#eventOwners.values()) this.#owners.release(owner);
    this.#eventOwners.clear();
    this.#dropApproximate();
    this.workingSet.dispose();
    this.deviceOwners = [];
    this.lowerOwners = [];
  }

  /** Chooses the owners to believe after the truth or the set of owners changed. */
  refreshOwners(): void {
    const { state, isConfirmed } = this.truth;
    this.deviceOwners = [];
    this.lowerOwners = [];
    if (state === 'approximate' || (state === 'events' && !isConfirmed)) {
      this.approximate ??= new ApproximateCache(
        this.#index,
        this.#owners.take(),
        this.capacityBlocks,
      );
      this.deviceOwners.push(this.approximate.owner);
    } else {
      this.#dropApproximate();
    }
    if (state !== 'events') return;
    for (const [key, owner] of this.#eventOwners) {
      (key % TIERS.length === 0 ? this.deviceOwners : this.lowerOwners).push(owner);
    }
  }

  #dropApproximate(): void {
    if (this.approximate === undefined) return;
    this.approximate.clear();
    this.#owners.release(this.approximate.owner);
    this.approximate = undefined;
  }
}
