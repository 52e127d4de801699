import type { KvIndex } from '@busbar/kv-index';
import { TIERS, type Tier, type WorkerInfo, type WorkerLoad } from '@busbar/protocol';
import type { Booking } from '../bookings/booking.ts';
import { BookingLine } from '../bookings/booking-line.ts';
import { ApproximateCache } from '../cache/approximate-cache.ts';
import { TruthLedger } from '../cache/cache-truth.ts';
import { KvStream } from '../cache/kv-stream.ts';
import type { ReuseStats } from '../cache/reuse-stats.ts';
import { WorkingSet } from '../cache/working-set.ts';
import { Suspicion } from '../split/suspicion.ts';
import type { CacheTruth } from '../types.ts';
import { LearnedRate } from './learned-rate.ts';
import type { SlotPool } from './slot-pool.ts';
import type { WorkerColumns } from './worker-columns.ts';

/** Failed prefill legs in a row that say nothing of the worker yet. */
const FORGIVEN_LEGS = 2;
/** Rates that workers announce are those of prompts about so long. */
const PRIOR_STEP_TOKENS = 1_024;

/** What the rows of one router share, and how a new one begins. */
export interface RowParts {
  index: KvIndex;
  owners: SlotPool;
  columns: WorkerColumns;
  reuse: ReuseStats;
  truth: CacheTruth;
  reason: string;
  nowMs: number;
}

/** All that the router knows of one worker; what a decision reads of it lies in the columns under its slot. */
export class WorkerRow {
  readonly workerId: string;
  /** Small integer of this row, reused after it left. */
  readonly slot: number;
  /** Only its adapters change. */
  info: WorkerInfo;
  readonly capacityBlocks: number;
  epoch: number;
  load: WorkerLoad | undefined;
  /** Its block set was fetched once, or cannot be: placements may go there. */
  isReady = false;
  isDraining = false;
  heardMs: number;
  /** When it said something the last time; `heardMs` may be later. */
  spokeMs: number;
  /** Snapshots in a row that left a gap. */
  syncAttempts = 0;
  readonly stream: KvStream;
  readonly truth: TruthLedger;
  /** The router's own guess; made at the first use, kept only while it is needed. */
  approximate: ApproximateCache | undefined;
  readonly workingSet: WorkingSet;
  /** Shared by all workers of the model. */
  readonly reuse: ReuseStats;
  /** Bookings without a first token: the engine works on the oldest prefill, and fetches all at once. The ledger owns the lines. */
  readonly prefills = new BookingLine();
  readonly fetches = new BookingLine();
  /** Whose prefill ended since the last heartbeat, with which it tells of single blocks. The ledger owns the list. */
  readonly untold: Booking[] = [];
  /** Of a prefill worker whose legs failed. */
  readonly suspicion = new Suspicion(FORGIVEN_LEGS);
  /** Owners whose overlap counts now: one a rank on the device, the router's own guess, or none. */
  deviceOwners: number[] = [];
  lowerOwners: number[] = [];
  #isGuessing = false;
  readonly #prefillRate: LearnedRate;
  readonly #stepTokens = new LearnedRate(PRIOR_STEP_TOKENS);
  readonly #decodeStepMs: LearnedRate;
  readonly #serviceMs: LearnedRate;
  readonly #columns: WorkerColumns;
  readonly #index: KvIndex;
  readonly #owners: SlotPool;
  /** Owner of rank × tiers + tier. */
  readonly #eventOwners = new Map<number, number>();

  constructor(workerId: string, slot: number, epoch: number, info: WorkerInfo, parts: RowParts) {
    this.workerId = workerId;
    this.slot = slot;
    this.epoch = epoch;
    this.info = info;
    this.heardMs = this.spokeMs = parts.nowMs;
    this.capacityBlocks = info.kvBlocks * info.dpRanks;
    this.stream = new KvStream(epoch);
    this.truth = new TruthLedger(parts.truth, parts.reason);
    this.reuse = parts.reuse;
    this.workingSet = new WorkingSet(this.capacityBlocks, parts.reuse);
    this.#prefillRate = new LearnedRate(info.prefillTokensPerMs);
    this.#decodeStepMs = new LearnedRate(info.decodeStepMs);
    this.#serviceMs = new LearnedRate(info.decodeStepMs * 64);
    this.#columns = parts.columns;
    this.#index = parts.index;
    this.#owners = parts.owners;
    this.#columns.open(slot);
    this.#columns.blockSize[slot] = info.blockSize;
    this.#columns.capacityTokens[slot] = this.capacityBlocks * info.blockSize;
    this.#columns.freeTokens[slot] = this.capacityBlocks * info.blockSize;
    // One token of the context is left for the answer.
    this.#columns.promptLimit[slot] = Math.min(
      info.contextTokens - 1,
      this.capacityBlocks * info.blockSize,
    );
    this.#columns.maxRunning[slot] = info.maxRunning;
    this.#columns.freeSeats[slot] = info.maxRunning;
    this.#writeRates();
    this.#writeSlack();
    this.refreshOwners();
    this.refreshOpen();
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

  /** Takes over what the worker reports of itself. */
  onLoad(load: WorkerLoad, nowMs: number): void {
    this.load = load;
    this.isDraining = load.state === 'draining';
    this.#columns.stagedTokens[this.slot] = (load.stagedBlocks ?? 0) * this.info.blockSize;
    this.#decodeStepMs.learn(load.decodeStepMs);
    this.learnPrefillRate(load.prefillTokensPerMs, load.prefillStepTokens ?? 0);
    this.spokeMs = nowMs;
    this.onHeard(nowMs);
  }

  /** Whether it said something or could not be heard: its silence counts from now on. */
  onHeard(nowMs: number): void {
    this.heardMs = nowMs;
    this.refreshOpen();
  }

  /** `stepTokens`: what the rate was measured at, 0 when that is not known. */
  learnPrefillRate(tokensPerMs: number, stepTokens: number): void {
    this.#prefillRate.learn(tokensPerMs);
    this.#stepTokens.learn(stepTokens);
    this.reuse.tokensPerMs.learn(tokensPerMs);
    this.#writeRates();
  }

  learnServiceMs(serviceMs: number): void {
    this.#serviceMs.learn(serviceMs);
    this.#writeRates();
  }

  /** A request with these blocks was placed here. */
  use(hashes: Uint32Array, nowMs: number): void {
    this.workingSet.use(hashes, nowMs);
    this.#writeSlack();
  }

  /** The prompt and `outputBlocks` more went through this worker's cache, whatever its events say of it. */
  guess(hashes: Uint32Array, outputBlocks: number, nowMs: number): void {
    if (!this.#isGuessing) return;
    if (this.approximate === undefined) {
      const owner = this.#owners.take();
      this.approximate = new ApproximateCache(this.#index, owner, this.capacityBlocks);
      this.refreshOwners();
    }
    this.approximate.use(hashes, nowMs);
    this.approximate.useAnonymous(outputBlocks, nowMs);
  }

  expireUse(nowMs: number): void {
    this.workingSet.expire(nowMs);
    this.#writeSlack();
  }

  /** Whether the worker gets requests; call after what this depends on changed. */
  refreshOpen(): void {
    const isOpen = this.isReady && !this.isDraining;
    this.#columns.openMs[this.slot] = isOpen ? this.heardMs : Number.NEGATIVE_INFINITY;
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
    this.#columns.lowerOwners -= this.lowerOwners.length;
    this.deviceOwners = [];
    this.lowerOwners = [];
  }

  /** Chooses the owners to believe; call after the truth or the set of owners changed. */
  refreshOwners(): void {
    const { state, isConfirmed } = this.truth;
    this.#columns.lowerOwners -= this.lowerOwners.length;
    this.deviceOwners = [];
    this.lowerOwners = [];
    this.#isGuessing = state === 'approximate' || (state === 'events' && !isConfirmed);
    if (!this.#isGuessing) this.#dropApproximate();
    if (this.approximate !== undefined) this.deviceOwners.push(this.approximate.owner);
    if (state === 'events') {
      for (const [key, owner] of this.#eventOwners) {
        (key % TIERS.length === 0 ? this.deviceOwners : this.lowerOwners).push(owner);
      }
    }
    this.#columns.lowerOwners += this.lowerOwners.length;
    const isSole = this.deviceOwners.length === 1 && this.lowerOwners.length === 0;
    this.#columns.soleOwner[this.slot] = isSole ? this.deviceOwners[0]! : -1;
  }

  #writeSlack(): void {
    const slackBlocks = this.capacityBlocks - this.workingSet.blocks;
    this.#columns.slackTokens[this.slot] = slackBlocks * this.info.blockSize;
  }

  #writeRates(): void {
    this.#columns.msPerToken[this.slot] = 1 / this.#prefillRate.value;
    this.#columns.stepTokens[this.slot] = this.#stepTokens.value;
    this.#columns.decodeStepMs[this.slot] = this.#decodeStepMs.value;
    this.#columns.serviceMs[this.slot] = this.#serviceMs.value;
  }

  #dropApproximate(): void {
    if (this.approximate === undefined) return;
    this.approximate.clear();
    this.#owners.release(this.approximate.owner);
    this.approximate = undefined;
  }
}
