import type {
  KvBatch,
  LifeEvent,
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
}

/** A placement request with what the shell knows about it. `key` names it in the effects. */
export interface RequestEvent {
  key: number;
  request: RouteRequest;
  /** Two words a block; full blocks of the prompt only. */
  hashes: Uint32Array;
}

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
    }
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
}

export interface WorkerView {
  workerId: string;
  model: string;
  truth: CacheTruth;
  reason: string;
  isAvailable: boolean;
  indexedBlocks: number;
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
  onWorkerJoined(workerId: string, epoch: number, info: WorkerInfo, nowMs: number): RouterEffect[];
  onWorkerLeft(workerId: string, nowMs: number): RouterEffect[];
  onLoad(workerId: string, load: WorkerLoad, nowMs: number): RouterEffect[];
  onKv(workerId: string, batch: KvBatch, nowMs: number): RouterEffect[];
  /** The whole block set of a worker, valid at (`epoch`, `sequence`). Batches that came in between are applied on top. */
  onKvSnapshot(
    workerId: string,
    snapshot: {
      epoch: number;
      sequence: number;
      parts: { dpRank: number; tier: Tier; hashes: Uint32Array }[];
    },
    nowMs: number,
  ): RouterEffect[];
  /** The shell could not get the snapshot that an effect asked for. */
  onKvSyncFailed(workerId: string, nowMs: number): RouterEffect[];
  onRequest(event: RequestEvent, nowMs: number): RouterEffect[];
  /** The asker is gone: forget a request that still waits. */
  onRequestCancelled(key: number, nowMs: number): RouterEffect[];
  onLife(frontendId: string, event: LifeEvent, hashes: Uint32Array, nowMs: number): RouterEffect[];
  /** A frontend's lease is gone: its bookings are released. */
  onFrontendLeft(frontendId: string, nowMs: number): RouterEffect[];
  onTick(nowMs: number): RouterEffect[];
  workers(): WorkerView[];
  /** Throws when the ledgers, the index and the worker table do not agree. */
  checkInvariants(): void;
}
