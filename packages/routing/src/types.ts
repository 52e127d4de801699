import type {
  HeldDecisions,
  KvBatch,
  LifeEvent,
  LinkRecord,
  RouteReply,
  RouteRequest,
  Tier,
  WorkerInfo,
  WorkerLoad,
} from '@busbar/protocol';

export const POLICIES = [
  'predictive',
  'kv',
  'approximate',
  'round-robin',
  'random',
  'least-loaded',
  'power-of-two',
] as const;
export type PolicyName = (typeof POLICIES)[number];

/** What a router knows of the cache of a worker: exact events, its own guesses, or nothing. */
export type CacheTruth = 'events' | 'approximate' | 'load-only';

/** When a prompt is prefilled by a prefill worker and not by the worker that decodes it. */
export const DISAGGREGATION_MODES = ['auto', 'always', 'never', 'threshold'] as const;
export type DisaggregationMode = (typeof DISAGGREGATION_MODES)[number];

export interface Disaggregation {
  /** `auto` splits where that is predicted to be faster, `threshold` where many tokens are uncached. */
  mode: DisaggregationMode;
  /** For `threshold`: prompts are split when the worker that decodes would have to compute more tokens than this. */
  thresholdTokens: number;
  /**
   * What must be split by `always` or `threshold` and cannot be is refused, and a split that fails is not repaired by a prefill at
   * the decode worker. `auto` never must split, so for it only the second holds.
   */
  isStrict: boolean;
  /** Rate of links between hosts of which nothing was measured. */
  assumedBytesPerMs: number;
}

export interface RouterConfig {
  routerId: string;
  policy: PolicyName;
  /** Requests that may wait for a worker; more are rejected. */
  queueLimit: number;
  /** How long a request may wait when no worker can take it. */
  queueWaitMs: number;
  loadSilenceMs: number;
  bookingTtlMs: number;
  /** How long a speculative or approximate entry is believed without confirmation. */
  approximateTtlMs: number;
  /** Time after a prefill that must have stored blocks, without any KV event, until the worker is demoted. */
  eventGraceMs: number;
  disaggregation: Disaggregation;
}

/** A placement request with what the shell knows about it. `key` names it in the effects. */
export interface RequestEvent {
  key: number;
  request: RouteRequest;
  /** Two words a block; full blocks of the prompt only. */
  hashes: Uint32Array;
}

/** The whole block set of a worker: two words a block, by rank and tier. */
export interface KvSnapshot {
  epoch: number;
  /** Number of the last batch of events that it contains. */
  sequence: number;
  parts: { dpRank: number; tier: Tier; hashes: Uint32Array }[];
}

/** Why what is believed of a worker's cache changed; few values, for metrics. */
export type TruthCause =
  | 'no_events'
  | 'not_announced'
  | 'sync_failed'
  | 'block_size'
  | 'bad_rank'
  | 'divergence'
  | 'retry'
  | 'recovered';

/** What a router core asks its shell to do. Data only; the shell carries them out in order. */
export type RouterEffect =
  /** Answer request `key`. For `place`, `record` explains the choice. */
  | { kind: 'reply'; key: number; reply: RouteReply; record: DecisionRecord | undefined }
  /** Fetch the worker's block set, then call `onKvSnapshot`. */
  | { kind: 'sync'; workerId: string; reason: 'joined' | 'gap' | 'epoch' | 'heartbeat' }
  /** The truth about a worker's cache changed. The shell logs it, counts it and publishes an event. */
  | {
      kind: 'truth';
      workerId: string;
      model: string;
      from: CacheTruth;
      to: CacheTruth;
      reason: string;
      cause: TruthCause;
    }
  /** These two workers serve one model and can never exchange KV. Told once for each pair of lives. */
  | {
      kind: 'pairRefused';
      prefillWorkerId: string;
      decodeWorkerId: string;
      model: string;
      reason: string;
    }
  /** The KV of a split request that this router placed has arrived. */
  | {
      kind: 'transferred';
      prefillWorkerId: string;
      decodeWorkerId: string;
      bytes: number;
      predictedMs: number;
      /** From the end of the prefill to the first token of the decode worker, as this router heard of them. */
      observedMs: number;
    }
  /** So many bookings were released because their frontend does not hold them: messages about them were lost. */
  | { kind: 'unheld'; frontendId: string; bookings: number }
  /** Call `onTick` at this time or earlier. */
  | { kind: 'wake'; atMs: number };

/** Why a worker was chosen: every term of the chosen one, listed first, and of the seven cheapest others, in milliseconds. */
export interface DecisionRecord {
  decisionId: string;
  model: string;
  policy: PolicyName;
  promptTokens: number;
  chosen: string;
  candidates: {
    workerId: string;
    overlapBlocks: number;
    truth: CacheTruth;
    terms: Record<string, number>;
    totalMs: number;
  }[];
  /** Whether the prompt goes to a prefill worker, and why. Absent when that was not in question. */
  split?: SplitRecord;
}

/** What a predicted rate rests on: transfers or a probe of this link, another link of the same hosts, or nothing at all. */
export type RateSource = 'transfers' | 'probe' | 'sibling' | 'assumed';

/** Why a request was split or not; few values, for metrics. */
export type SplitCause =
  /** Mode `auto`: the faster of both. */
  | 'pays'
  | 'does_not_pay'
  /** The mode decides. */
  | 'always'
  | 'above_threshold'
  | 'below_threshold'
  /** No prefill worker is registered, none can exchange KV with a decode worker, or none can take the request now. */
  | 'no_prefill'
  | 'no_pair'
  | 'prefill_unavailable';

/** Both ways to serve one request, in milliseconds. */
export interface SplitRecord {
  mode: DisaggregationMode;
  isSplit: boolean;
  cause: SplitCause;
  /** One sentence with the figures that decided. */
  reason: string;
  /** The best worker for the whole request: the terms of its placement and what its prefill costs its running decodes. */
  local: {
    workerId: string;
    terms: Record<string, number>;
    totalMs: number;
  };
  /** The best pair of workers; absent when there is none. */
  pair?: {
    prefillWorkerId: string;
    decodeWorkerId: string;
    /** Prompt tokens that are expected in the cache of either. */
    prefillCachedTokens: number;
    decodeCachedTokens: number;
    /** KV that must be moved, in whole blocks, and what is booked ahead of it on the same link or hosts. */
    bytes: number;
    bytesAhead: number;
    bytesPerMs: number;
    latencyMs: number;
    source: RateSource;
    terms: Record<string, number>;
    totalMs: number;
  };
  /** Pairs that were compared. */
  comparedPairs: number;
}

/** What a router knows of one pair of workers of one model and of the way between them. */
export interface PairView {
  prefillWorkerId: string;
  decodeWorkerId: string;
  model: string;
  /** Why they can never exchange KV; absent when they can. */
  refusal?: string;
  bytesPerMs: number;
  latencyMs: number;
  source: RateSource;
  /** The last news of the link is so old that its rate may have changed. */
  isStale: boolean;
  /** KV came over it, or need not have: no request is split over it before. */
  isProven: boolean;
  /** Transfers failed lately: for so long no request is split over it. */
  suspectForMs?: number;
  transfers: number;
  failures: number;
  lastFailure?: string;
  /** KV of placed requests that is not known to have arrived. */
  bookedBytes: number;
}

export interface WorkerView {
  workerId: string;
  model: string;
  role: WorkerInfo['role'];
  truth: CacheTruth;
  reason: string;
  isAvailable: boolean;
  indexedBlocks: number;
  /** Distinct blocks asked for there lately, followed up to twice its capacity: above it, prompts are computed again and again. */
  wantedBlocks: number;
  bookedRequests: number;
  bookedPrefillTokens: number;
  expectedCachedTokensTotal: number;
  reportedCachedTokensTotal: number;
}

/**
 * One router: events and requests in, effects out. Synchronous and deterministic; `nowMs` never falls. The live service and the
 * simulator drive this same object.
 */
export interface RouterCore {
  /** Also for a worker that is here and says something new of itself: other adapters leave all else as it is. */
  onWorkerJoined(workerId: string, epoch: number, info: WorkerInfo, nowMs: number): RouterEffect[];
  onWorkerLeft(workerId: string, nowMs: number): RouterEffect[];
  onLoad(workerId: string, load: WorkerLoad, nowMs: number): RouterEffect[];
  onKv(workerId: string, batch: KvBatch, nowMs: number): RouterEffect[];
  /** The whole block set of a worker, valid at (`epoch`, `sequence`). Batches that came in between are applied on top. */
  onKvSnapshot(workerId: string, snapshot: KvSnapshot, nowMs: number): RouterEffect[];
  /** The shell could not get the snapshot that an effect asked for. */
  onKvSyncFailed(workerId: string, nowMs: number): RouterEffect[];
  onRequest(event: RequestEvent, nowMs: number): RouterEffect[];
  /** The asker is gone: forget a request that still waits. */
  onRequestCancelled(key: number): RouterEffect[];
  onLife(frontendId: string, event: LifeEvent, hashes: Uint32Array, nowMs: number): RouterEffect[];
  /** A frontend says what it holds: other bookings of the same asks are released, and those that wait are answered. */
  onHeld(frontendId: string, held: HeldDecisions, nowMs: number): RouterEffect[];
  /** A frontend's lease is gone: its bookings are released. */
  onFrontendLeft(frontendId: string, nowMs: number): RouterEffect[];
  /** A decode worker published what it measured of a way into it. */
  onLink(record: LinkRecord, nowMs: number): RouterEffect[];
  /** Nothing is known of this link any more. */
  onLinkGone(prefillWorkerId: string, decodeWorkerId: string): RouterEffect[];
  /** The bus is back after it was away: what was not heard meanwhile tells nothing of any worker. */
  onReconnected(nowMs: number): RouterEffect[];
  onTick(nowMs: number): RouterEffect[];
  workers(nowMs: number): WorkerView[];
  /** Every prefill worker with every decode worker of its model. */
  pairs(nowMs: number): PairView[];
  /** Throws when the ledgers, the index and the worker table do not agree. */
  checkInvariants(): void;
}
