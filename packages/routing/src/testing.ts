import { createRng } from '@busbar/base';
import type {
  KvBatch,
  KvChange,
  LifeEvent,
  Outcome,
  RouteReply,
  WorkerInfo,
  WorkerLoad,
} from '@busbar/protocol';
import { createRouterCore } from './core.ts';
import { ROUTER_DEFAULTS } from './defaults.ts';
import type { DecisionRecord, RouterConfig, RouterCore, RouterEffect } from './types.ts';

/** What the tests of this package share. */

export const BLOCK_SIZE = 16;
export const MODEL = 'm';
export const NONE = new Uint32Array(0);

export const CONFIG: RouterConfig = {
  routerId: 'r1',
  policy: 'predictive',
  queueLimit: 4,
  queueWaitMs: 1_000,
  loadSilenceMs: 350,
  bookingTtlMs: 60_000,
  approximateTtlMs: 30_000,
  eventGraceMs: 2_000,
  disaggregation: ROUTER_DEFAULTS.disaggregation,
};

export const INFO: WorkerInfo = {
  model: MODEL,
  engine: 'mock',
  engineVersion: '1',
  blockSize: BLOCK_SIZE,
  kvBlocks: 1_000,
  role: 'decode',
  dpRanks: 1,
  contextTokens: 16_384,
  maxRunning: 256,
  kvEvents: true,
  prefillTokensPerMs: 20,
  decodeStepMs: 10,
};

export const LOAD: WorkerLoad = {
  epoch: 1,
  state: 'ready',
  running: 0,
  waiting: 0,
  waitingPrefillTokens: 0,
  freeBlocks: 1_000,
  activeBlocks: 0,
  kvBlocks: 1_000,
  decodeStepMs: 0,
  prefillTokensPerMs: 0,
  kvSequence: 0,
  storedBlocksTotal: 0,
};

/** Hashes of a chain of `blocks` blocks: equal names share all, names joined by "/" share what comes before the slash. */
export function chain(name: string, blocks: number): Uint32Array {
  const words = new Uint32Array(blocks * 2);
  const rng = createRng(hashOf(name));
  for (let i = 0; i < words.length; i++) words[i] = rng.u32();
  return words;
}

/** `shared` blocks of one chain, then `own` of another. */
export function branch(
  shared: string,
  sharedBlocks: number,
  own: string,
  ownBlocks: number,
): Uint32Array {
  return Uint32Array.from([
    ...chain(shared, sharedBlocks),
    ...chain(`${shared}/${own}`, ownBlocks),
  ]);
}

function hashOf(name: string): number {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  return hash;
}

export function batch(sequence: number, changes: KvChange[], rest: Partial<KvBatch> = {}): KvBatch {
  return { epoch: 1, sequence, dpRank: 0, tier: 'device', changes, ...rest };
}

export function stored(hashes: Uint32Array): KvChange {
  return { kind: 'stored', hashes };
}

export type Placed = Extract<RouteReply, { kind: 'place' }>;

/** A router core with a clock, whose invariants are checked after every call. */
export class Bench {
  readonly core: RouterCore;
  readonly info = INFO;
  nowMs = 0;
  /** All effects so far. */
  readonly effects: RouterEffect[] = [];
  #key = 0;
  readonly #sequences = new Map<string, number>();

  constructor(config: Partial<RouterConfig> = {}, seed = 1) {
    this.core = createRouterCore({ ...CONFIG, ...config }, createRng(seed));
  }

  /** Lets time pass, ticking when a wake is due and keeping every worker's heart beating. */
  pass(ms: number, beating: readonly string[] = []): void {
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) {
      this.nowMs = Math.min(endMs, this.nowMs + 100);
      for (const id of beating) this.load(id);
      this.run(this.core.onTick(this.nowMs));
    }
  }

  run(effects: RouterEffect[]): RouterEffect[] {
    this.effects.push(...effects);
    this.core.checkInvariants();
    return effects;
  }

  /** A worker joins and is synced with an empty cache. */
  join(id: string, info: Partial<WorkerInfo> = {}, epoch = 1): RouterEffect[] {
    const effects = this.run(this.core.onWorkerJoined(id, epoch, { ...INFO, ...info }, this.nowMs));
    const isSyncing = effects.some((effect) => effect.kind === 'sync');
    return isSyncing ? [...effects, ...this.snapshot(id, 0, NONE, epoch)] : effects;
  }

  snapshot(id: string, sequence: number, hashes: Uint32Array, epoch = 1): RouterEffect[] {
    const parts = hashes.length === 0 ? [] : [{ dpRank: 0, tier: 'device' as const, hashes }];
    return this.run(this.core.onKvSnapshot(id, { epoch, sequence, parts }, this.nowMs));
  }

  /** Requests asked so far; also the key of the next one. */
  get keys(): number {
    return this.#key;
  }

  /** The next sequence number of a worker's events. */
  sequence(id: string): number {
    const next = (this.#sequences.get(id) ?? 0) + 1;
    this.#sequences.set(id, next);
    return next;
  }

  kv(
    id: string,
    sequence: number,
    changes: KvChange[],
    rest: Partial<KvBatch> = {},
  ): RouterEffect[] {
    return this.run(this.core.onKv(id, batch(sequence, changes, rest), this.nowMs));
  }

  load(id: string, load: Partial<WorkerLoad> = {}): RouterEffect[] {
    return this.run(this.core.onLoad(id, { ...LOAD, ...load }, this.nowMs));
  }

  /** Asks for a placement and answers all effects. */
  ask(
    hashes: Uint32Array,
    request: Partial<Parameters<RouterCore['onRequest']>[0]['request']> = {},
  ) {
    const promptTokens = (hashes.length >> 1) * BLOCK_SIZE + 1;
    const fields = {
      model: MODEL,
      frontendId: 'f1',
      promptTokens,
      maxTokens: 8,
      deadlineMs: 5_000,
    };
    const event = { key: this.#key++, request: { ...fields, ...request }, hashes };
    return this.run(this.core.onRequest(event, this.nowMs));
  }

  /** Asks for a placement that must succeed at once. */
  place(hashes: Uint32Array, request: Parameters<Bench['ask']>[1] = {}): Placed {
    const reply = replyOf(this.ask(hashes, request));
    if (reply?.kind !== 'place') throw new Error(`not placed: ${JSON.stringify(reply)}`);
    return reply;
  }

  first(placed: Placed, cachedTokens = placed.expectedCachedTokens): RouterEffect[] {
    const { decisionId, workerId } = placed;
    return this.life({ kind: 'firstToken', decisionId, workerId, cachedTokens, ttftMs: 50 });
  }

  /** The first token of a prompt of which nothing was cached; answers the placement. */
  computed(placed: Placed): Placed {
    this.first(placed, 0);
    return placed;
  }

  end(placed: Placed, outcome: Outcome = 'completed'): RouterEffect[] {
    const { decisionId, workerId } = placed;
    return this.life({ kind: 'ended', decisionId, workerId, outcome, outputTokens: 8 });
  }

  life(event: LifeEvent, hashes: Uint32Array = NONE, frontendId = 'f1'): RouterEffect[] {
    return this.run(this.core.onLife(frontendId, event, hashes, this.nowMs));
  }

  /** Requests, prefill tokens and bytes that are booked anywhere. */
  booked(): number {
    let sum = 0;
    for (const view of this.core.workers(this.nowMs))
      sum += view.bookedRequests + view.bookedPrefillTokens;
    for (const { bookedBytes } of this.core.pairs(this.nowMs)) sum += bookedBytes;
    return sum;
  }

  view(id: string) {
    const view = this.core.workers(this.nowMs).find(({ workerId }) => workerId === id);
    if (view === undefined) throw new Error(`no worker ${id}`);
    return view;
  }

  /** Leading blocks that the router knows of on a worker, as the record of a decision tells; nothing stays booked. */
  overlap(id: string, hashes: Uint32Array): number {
    const effects = this.ask(hashes, { workerId: id });
    const reply = replyOf(effects);
    if (reply?.kind !== 'place') throw new Error(`${id} cannot be asked`);
    this.end(reply, 'failed');
    return recordOf(effects).candidates[0]!.overlapBlocks;
  }
}

export const THREE = ['w1', 'w2', 'w3'];

/** A bench with three workers alike. */
export function benchOfThree(config: Partial<RouterConfig> = {}): Bench {
  const bench = new Bench(config);
  for (const id of THREE) bench.join(id);
  return bench;
}

export function replyOf(effects: readonly RouterEffect[]): RouteReply | undefined {
  return effects.find((effect) => effect.kind === 'reply')?.reply;
}

export function recordOf(effects: readonly RouterEffect[]): DecisionRecord {
  const record = effects.find((effect) => effect.kind === 'reply')?.record;
  if (record === undefined) throw new Error('no record');
  return record;
}

export function truthsOf(effects: readonly RouterEffect[]): string[] {
  return effects.flatMap((effect) =>
    effect.kind === 'truth' ? [`${effect.workerId} ${effect.from} to ${effect.to}`] : [],
  );
}

export function syncsOf(effects: readonly RouterEffect[]): string[] {
  return effects.flatMap((effect) =>
    effect.kind === 'sync' ? [`${effect.workerId} ${effect.reason}`] : [],
  );
}
