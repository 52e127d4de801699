import { createRng, type Rng } from '@busbar/base';
import { createMocker, type Mocker, profileByName } from '@busbar/mocker';
import { createRouterCore } from './core.ts';
import { BLOCK_SIZE, CONFIG, INFO, LOAD, MODEL } from './testing.ts';
import type { RouterConfig, RouterCore, RouterEffect } from './types.ts';

const BEAT_MS = 100;
const OUTPUT_TOKENS = 8;

export interface ClusterRequest {
  tokens: number;
  hashes: Uint32Array;
}

interface Worker {
  id: string;
  mocker: Mocker;
  endsMs: number | undefined;
  kvSequence: number;
}

export interface ClusterOptions {
  kvBlocks: readonly number[];
  seed: number;
  /** Whether routers hear of blocks; workers claim so anyway. */
  hasEvents?: boolean;
  config?: Partial<RouterConfig>;
}

/** Mock engines behind one router core, under a clock that jumps from step to step. */
export class Cluster {
  readonly core: RouterCore;
  nowMs = 0;
  readonly effects: RouterEffect[] = [];
  readonly #workers: Worker[];
  readonly #hasEvents: boolean;
  readonly #placed = new Map<number, { decisionId: string; workerId: string }>();
  #keys = 0;
  #beatMs = 0;

  constructor({ kvBlocks, seed, hasEvents = true, config = {} }: ClusterOptions) {
    this.core = createRouterCore({ ...CONFIG, queueLimit: 100, ...config }, createRng(seed));
    this.#hasEvents = hasEvents;
    const profile = profileByName('seed-8gb')!;
    this.#workers = kvBlocks.map((blocks, i) => ({
      id: `worker-${i}`,
      endsMs: undefined,
      kvSequence: 0,
      mocker: createMocker({
        blockSize: BLOCK_SIZE,
        kvBlocks: blocks,
        contextTokens: 4096,
        profile,
        speed: 1,
        script: [Uint32Array.of(7, 8, 9)],
        eosTokenIds: [2],
      }),
    }));
    for (const [i, { id }] of this.#workers.entries()) {
      const { prefillTokensPerMs, decodeStepMs } = profile;
      const info = { ...INFO, kvBlocks: kvBlocks[i]!, prefillTokensPerMs, decodeStepMs };
      this.#run(this.core.onWorkerJoined(id, 1, info, 0));
      this.#run(this.core.onKvSnapshot(id, { epoch: 1, sequence: 0, parts: [] }, 0));
    }
  }

  /** Sends all at once, waits for all answers, and says of each how many prompt tokens were cached. */
  batch(requests: readonly ClusterRequest[]): number[] {
    const cached = requests.map(() => 0);
    const open = new Map(requests.map((request, i) => [this.#place(request), i]));
    while (open.size > 0) {
      for (const { key, cachedTokens, isEnd } of this.#advance()) {
        const i = open.get(key)!;
        if (cachedTokens !== undefined) cached[i] = cachedTokens;
        if (isEnd) open.delete(key);
      }
    }
    return cached;
  }

  idle(ms: number): void {
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs) this.#advance();
  }

  #place({ tokens, hashes }: ClusterRequest): number {
    const key = this.#keys++;
    const request = {
      model: MODEL,
      frontendId: 'f',
      promptTokens: tokens,
      maxTokens: OUTPUT_TOKENS,
      deadlineMs: 1000,
    };
    const effects = this.#run(this.core.onRequest({ key, request, hashes }, this.nowMs));
    const reply = effects.find((effect) => effect.kind === 'reply')?.reply;
    if (reply?.kind !== 'place') throw new Error(`not placed: ${JSON.stringify(reply)}`);
    const { decisionId, workerId } = reply;
    this.#placed.set(key, { decisionId, workerId });
    const { mocker } = this.#workers.find(({ id }) => id === workerId)!;
    mocker.submit({
      key,
      tokens: new Uint32Array(tokens).fill(key),
      hashes,
      hashSeed: 1337n,
      maxTokens: OUTPUT_TOKENS,
      minTokens: 0,
      ignoreEos: true,
      stopTokenIds: [],
      seed: key,
    });
    return key;
  }

  /** Moves on to the next end of a step or heartbeat. */
  #advance() {
    for (const worker of this.#workers) {
      if (worker.endsMs !== undefined) continue;
      const plan = worker.mocker.beginStep(this.nowMs);
      if (plan !== undefined) worker.endsMs = this.nowMs + plan.durationMs;
    }
    const ends = this.#workers.flatMap(({ endsMs }) => endsMs ?? []);
    this.nowMs = Math.min(this.#beatMs + BEAT_MS, ...ends);
    if (this.nowMs >= this.#beatMs + BEAT_MS) this.#beat();
    const told: { key: number; cachedTokens: number | undefined; isEnd: boolean }[] = [];
    for (const worker of this.#workers) {
      if (worker.endsMs === this.nowMs) told.push(...this.#endStep(worker));
    }
    return told;
  }

  #endStep(worker: Worker) {
    worker.endsMs = undefined;
    const { deltas, kv } = worker.mocker.endStep(this.nowMs);
    if (kv.length > 0 && this.#hasEvents) {
      const sequence = ++worker.kvSequence;
      const event = { epoch: 1, sequence, dpRank: 0, tier: 'device' as const, changes: kv };
      this.#run(this.core.onKv(worker.id, event, this.nowMs));
    }
    return deltas.map(({ key, cachedTokens, finish, tokens }) => {
      const ids = this.#placed.get(key)!;
      const life = (event: Parameters<RouterCore['onLife']>[1]) =>
        this.#run(this.core.onLife('f', event, new Uint32Array(0), this.nowMs));
      if (cachedTokens !== undefined) {
        life({ kind: 'firstToken', ...ids, cachedTokens, ttftMs: 1 });
      }
      const isEnd = finish !== 'none';
      if (isEnd) life({ kind: 'ended', ...ids, outcome: 'completed', outputTokens: tokens.length });
      return { key, cachedTokens, isEnd };
    });
  }

  #beat(): void {
    this.#beatMs = this.nowMs;
    this.#run(this.core.onTick(this.nowMs));
    for (const { id, mocker, kvSequence } of this.#workers) {
      this.#run(this.core.onLoad(id, { ...LOAD, ...mocker.load(), kvSequence }, this.nowMs));
    }
  }

  #run(effects: RouterEffect[]): RouterEffect[] {
    this.effects.push(...effects);
    return effects;
  }
}

export interface SharedPrefixes {
  prefixes: number;
  rounds: number;
  inFlight: number;
}

/**
 * Prompts of about 1,560 tokens, each of `prefixes` beginnings asked once a round in shuffled order with an end of its own, `inFlight`
 * at a time. Counts the repeated prompts and those of them that were at least half cached.
 */
export function askSharedPrefixes(cluster: Cluster, shape: SharedPrefixes, seed: number) {
  const rng = createRng(seed);
  const prefixes = Array.from({ length: shape.prefixes }, () => ({
    tokens: 1515 + rng.int(20),
    hashes: words(rng, 97 * 2),
  }));
  const order = Array.from({ length: shape.rounds }, () => shuffled(rng, shape.prefixes)).flat();
  const seen = new Set<number>();
  let repeats = 0;
  let hits = 0;
  for (let at = 0; at < order.length; at += shape.inFlight) {
    const asked = order.slice(at, at + shape.inFlight);
    const requests = asked.map((index) => {
      const { tokens, hashes } = prefixes[index]!;
      const all = tokens + 31 + rng.int(3);
      const shared = Math.floor(tokens / BLOCK_SIZE);
      const own = words(rng, (Math.floor(all / BLOCK_SIZE) - shared) * 2);
      return { tokens: all, hashes: Uint32Array.from([...hashes.subarray(0, shared * 2), ...own]) };
    });
    cluster.batch(requests).forEach((cached, i) => {
      if (seen.has(asked[i]!)) repeats++;
      if (seen.has(asked[i]!) && cached * 2 >= requests[i]!.tokens) hits++;
      seen.add(asked[i]!);
    });
  }
  return { repeats, hits };
}

function words(rng: Rng, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, () => rng.u32());
}

function shuffled(rng: Rng, count: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = rng.int(i + 1);
    [order[i], order[other]] = [order[other]!, order[i]!];
  }
  return order;
}
