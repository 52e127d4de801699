import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createRng, type Rng } from '@busbar/base';
import { createReferenceKvIndex } from '@busbar/kv-index';
import type { KvChange } from '@busbar/protocol';
import { linkRecord, transferOf } from './split/split.testing.ts';
import { Bench, branch, chain, INFO, type Placed } from './testing.ts';
import { DISAGGREGATION_MODES, POLICIES, type RouterEffect } from './types.ts';

const WORKERS = ['w1', 'w2', 'w3', 'p1', 'p2'];
const ROUTERS = ['r1', 'r2'];
const FRONTENDS = ['f1', 'f2'];
const STEPS = 400;

/** What one worker really holds, and what it has told of it. */
interface Truth {
  epoch: number;
  sequence: number;
  blocks: ReturnType<typeof createReferenceKvIndex>;
}

/** Drives a core with everything that can come, in any order, lost and repeated. */
class Walk {
  readonly bench: Bench;
  /** Placements over two workers. */
  splits = 0;
  readonly #rng: Rng;
  readonly #live = new Map<string, Truth>();
  readonly #placed: Placed[] = [];
  readonly #asked = new Map<number, number>();
  #epoch = 0;
  #foreign = 0;

  constructor(seed: number) {
    this.#rng = createRng(seed);
    const policy = POLICIES[this.#rng.int(POLICIES.length)]!;
    const disaggregation = {
      mode: pick(this.#rng, DISAGGREGATION_MODES),
      thresholdTokens: 100,
      isStrict: this.#rng.int(3) === 0,
      assumedBytesPerMs: 1e6,
    };
    const limits = { queueLimit: 6, bookingTtlMs: 4_000, eventGraceMs: 500 };
    this.bench = new Bench({ policy, disaggregation, ...limits }, seed);
  }

  step(): void {
    const { bench } = this;
    const id = pick(this.#rng, WORKERS);
    bench.nowMs += this.#rng.int(60);
    const kind = this.#rng.int(21);
    if (kind === 0) this.#leave(id);
    else if (kind <= 2) this.#join(id);
    else if (kind <= 7) this.#kv(id);
    else if (kind <= 9) this.#load(id);
    else if (kind <= 13) this.#ask();
    else if (kind <= 16) this.#follow();
    else if (kind === 17) this.#foreignBooking(id);
    else if (kind === 18) this.#forget();
    else if (kind === 19) this.#link();
    else this.#note(bench.run(bench.core.onTick(bench.nowMs)));
  }

  /** Everybody goes; nothing may stay behind. */
  end(): void {
    const { bench } = this;
    for (const frontend of FRONTENDS) bench.run(bench.core.onFrontendLeft(frontend, bench.nowMs));
    for (let i = 0; i < 30; i++) {
      bench.nowMs += 500;
      this.#note(bench.run(bench.core.onTick(bench.nowMs)));
    }
    assert.equal(bench.booked(), 0);
    for (const [key, replies] of this.#asked) assert.ok(replies <= 1, `request ${key}: ${replies}`);
    for (const id of WORKERS) bench.run(bench.core.onWorkerLeft(id, bench.nowMs));
    assert.deepEqual(bench.core.workers(bench.nowMs), []);
  }

  /** After a heartbeat and a snapshot of each worker, the index holds exactly what the worker holds. */
  settle(): void {
    const { bench } = this;
    bench.nowMs += 1_000;
    for (const [id, truth] of this.#live) {
      truth.sequence++;
      const lost = { epoch: truth.epoch, sequence: truth.sequence + 1 };
      this.#note(bench.kv(id, lost.sequence, [], { epoch: truth.epoch }));
      truth.sequence = lost.sequence;
      this.#snapshot(id, truth);
      const view = bench.view(id);
      if (view.truth === 'events') assert.equal(view.indexedBlocks, this.#held(truth).length >> 1);
    }
  }

  #leave(id: string): void {
    this.#live.delete(id);
    this.#note(this.bench.run(this.bench.core.onWorkerLeft(id, this.bench.nowMs)));
  }

  #join(id: string): void {
    if (this.#live.has(id)) return;
    const truth = { epoch: ++this.#epoch, sequence: 0, blocks: createReferenceKvIndex() };
    this.#live.set(id, truth);
    const { bench } = this;
    const role = id.startsWith('p') ? ('prefill' as const) : ('decode' as const);
    const host = pick(this.#rng, ['h1', 'h2']);
    // Some cannot exchange KV at all, or not with everybody.
    const revision = { engine: this.#rng.int(5) === 0 ? 'old' : 'new' };
    const transfer = this.#rng.int(6) === 0 ? undefined : transferOf(host, { revision });
    const cache = { dpRanks: 2, kvBlocks: 60, kvEvents: this.#rng.int(5) > 0 };
    const info = { ...INFO, ...cache, role, ...(transfer === undefined ? {} : { transfer }) };
    this.#note(bench.run(bench.core.onWorkerJoined(id, truth.epoch, info, bench.nowMs)));
  }

  /** The worker's cache changes; the message is lost at times, and comes twice at others. */
  #kv(id: string): void {
    const truth = this.#live.get(id);
    if (truth === undefined) {
      this.#note(this.bench.kv(id, 5, [{ kind: 'stored', hashes: chain('late', 3) }]));
      return;
    }
    const dpRank = this.#rng.int(2);
    const hashes = this.#prompt();
    const kinds: KvChange[] = [
      { kind: 'stored', hashes },
      { kind: 'removed', hashes },
      { kind: 'cleared' },
    ];
    const change = kinds[Math.min(2, this.#rng.int(7) >> 1)]!;
    if (change.kind === 'stored') truth.blocks.store(dpRank, hashes);
    else if (change.kind === 'removed') truth.blocks.remove(dpRank, hashes);
    else truth.blocks.clear(dpRank);
    truth.sequence++;
    const times = [0, 1, 1, 1, 1, 2][this.#rng.int(6)]!;
    for (let i = 0; i < times; i++) {
      this.#note(this.bench.kv(id, truth.sequence, [change], { epoch: truth.epoch, dpRank }));
    }
  }

  #load(id: string): void {
    const truth = this.#live.get(id);
    const state = this.#rng.int(10) === 0 ? ('draining' as const) : ('ready' as const);
    const epoch = truth?.epoch ?? 1;
    const kvSequence = truth?.sequence ?? 0;
    const prefillTokensPerMs = this.#rng.next() * 40;
    const stagedBlocks = this.#rng.int(60);
    const load = { epoch, state, kvSequence, prefillTokensPerMs, stagedBlocks } as const;
    this.#note(this.bench.load(id, load));
  }

  /** News of a link, perhaps of workers that are not here. */
  #link(): void {
    const { bench } = this;
    const [prefillId, decodeId] = [pick(this.#rng, WORKERS), pick(this.#rng, WORKERS)];
    if (this.#rng.int(4) === 0) {
      this.#note(bench.run(bench.core.onLinkGone(prefillId, decodeId)));
      return;
    }
    const sums = { transfers: this.#rng.int(5), failures: this.#rng.int(5) };
    const record = linkRecord(prefillId, decodeId, { ...sums, bytesPerMs: this.#rng.next() * 1e7 });
    this.#note(bench.run(bench.core.onLink(record, bench.nowMs)));
  }

  #ask(): void {
    const request = {
      frontendId: pick(this.#rng, FRONTENDS),
      ask: this.bench.keys + 1,
      ...(this.#rng.int(4) === 0 ? { excluded: [pick(this.#rng, WORKERS)] } : undefined),
      ...(this.#rng.int(6) === 0 ? { isWhole: true } : undefined),
      ...(this.#rng.int(4) === 0 ? { kvAt: pick(this.#rng, WORKERS) } : undefined),
    };
    this.#asked.set(this.bench.keys, 0);
    this.#note(this.bench.ask(this.#prompt(), request));
  }

  #follow(): void {
    const at = this.#rng.int(Math.max(1, this.#placed.length));
    const placed = this.#placed[at];
    if (placed === undefined) return;
    if (this.#rng.int(2) === 0) this.#note(this.bench.first(placed, this.#rng.int(100)));
    else this.#note(this.bench.end(placed, this.#rng.int(3) === 0 ? 'failed' : 'completed'));
    if (this.#rng.int(2) === 0) this.#placed.splice(at, 1);
  }

  #foreignBooking(workerId: string): void {
    const hashes = this.#prompt();
    const decodeId = `foreign-${this.#foreign}`;
    // Legs of one split at times, in either order, at times with one of them lost.
    const isPrefill = workerId.startsWith('p');
    const decisionId = isPrefill ? `${decodeId}.p` : decodeId;
    if (this.#rng.int(2) === 0) this.#foreign++;
    const promptTokens = hashes.length * 8 + 1;
    const fields = { decisionId, workerId, routerId: pick(this.#rng, ROUTERS) };
    const booked = {
      promptTokens,
      maxTokens: 8,
      expectedCachedTokens: 16,
      blocks: hashes.length >> 1,
      ...(!isPrefill && this.#rng.int(2) === 0 ? { isFetched: true } : undefined),
      ...(this.#rng.int(4) === 0 ? { kvAt: pick(this.#rng, WORKERS) } : undefined),
    };
    this.#note(
      this.bench.life({ kind: 'booked', ...fields, ...booked }, hashes, pick(this.#rng, FRONTENDS)),
    );
    this.#placed.push({ kind: 'place', ...fields, expectedCachedTokens: 16 });
  }

  #forget(): void {
    const { bench } = this;
    const kind = this.#rng.int(4);
    if (kind === 0) this.#hold();
    else if (kind === 1) {
      bench.run(bench.core.onFrontendLeft(pick(this.#rng, FRONTENDS), bench.nowMs));
    } else bench.run(bench.core.onRequestCancelled(this.#rng.int(bench.keys + 1)));
  }

  /** Whatever a frontend says of what it holds. */
  #hold(): void {
    const { bench } = this;
    const before = this.#rng.int(bench.keys + 2);
    const from = this.#rng.int(before + 1);
    const decisionIds = this.#placed
      .filter(() => this.#rng.int(2) === 0)
      .map(({ decisionId }) => decisionId);
    const frontendId = pick(this.#rng, FRONTENDS);
    this.#note(
      bench.run(bench.core.onHeld(frontendId, { from, before, decisionIds }, bench.nowMs)),
    );
  }

  /** Carries out what the core asks for, badly at times. */
  #note(effects: readonly RouterEffect[]): void {
    for (const effect of effects) {
      if (effect.kind === 'reply') {
        if (this.#asked.has(effect.key))
          this.#asked.set(effect.key, this.#asked.get(effect.key)! + 1);
        if (effect.reply.kind === 'place') this.#onPlaced(effect.reply);
      } else if (effect.kind === 'sync') {
        const truth = this.#live.get(effect.workerId);
        const { bench } = this;
        if (truth === undefined || this.#rng.int(6) === 0) {
          this.#note(bench.run(bench.core.onKvSyncFailed(effect.workerId, bench.nowMs)));
        } else if (this.#rng.int(4) > 0) this.#snapshot(effect.workerId, truth);
      }
    }
  }

  #onPlaced(reply: Placed): void {
    this.#placed.push(reply);
    assert.ok(!reply.workerId.startsWith('p'), 'a prefill worker serves nobody alone');
    const { prefill } = reply;
    if (prefill === undefined) return;
    this.splits++;
    const { decisionId, workerId, expectedCachedTokens } = prefill;
    assert.ok(workerId.startsWith('p'));
    this.#placed.push({ ...reply, decisionId, workerId, expectedCachedTokens });
  }

  #snapshot(id: string, { epoch, sequence, blocks }: Truth): void {
    const { bench } = this;
    const parts = [0, 1].map((dpRank) => ({
      dpRank,
      tier: 'device' as const,
      hashes: blocks.dump(dpRank),
    }));
    this.#note(bench.run(bench.core.onKvSnapshot(id, { epoch, sequence, parts }, bench.nowMs)));
  }

  #held({ blocks }: Truth): Uint32Array {
    return Uint32Array.from([...blocks.dump(0), ...blocks.dump(1)]);
  }

  #prompt(): Uint32Array {
    const family = `p${this.#rng.int(3)}`;
    return branch(family, 1 + this.#rng.int(12), `t${this.#rng.int(4)}`, 1 + this.#rng.int(4));
  }
}

suite('whatever happens, in whatever order', () => {
  let splits = 0;
  for (let seed = 1; seed <= 30; seed++) {
    test(`ledgers, index and table agree, and nothing stays behind (seed ${seed})`, () => {
      const walk = new Walk(seed);
      for (let i = 0; i < STEPS; i++) walk.step();
      walk.settle();
      walk.end();
      splits += walk.splits;
    });
  }

  test('some of it was split', () => {
    assert.ok(splits > 100, `${splits}`);
  });
});

function pick<T>(rng: Rng, from: readonly T[]): T {
  return from[rng.int(from.length)]!;
}
