import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createRng, type Rng } from '@busbar/base';
import { type HeldDecisions, limit } from '@busbar/protocol';
import { SplitBench } from '../split/split.testing.ts';
import { Bench, chain, type Placed, replyOf } from '../testing.ts';
import type { RouterEffect } from '../types.ts';

function held(bench: Bench, list: Partial<HeldDecisions>, frontendId = 'f1'): RouterEffect[] {
  const whole = { from: 0, before: 1, decisionIds: [], ...list };
  return bench.run(bench.core.onHeld(frontendId, whole, bench.nowMs));
}

function booked(bench: Bench): number {
  return bench.core.workers(bench.nowMs).reduce((sum, view) => sum + view.bookedRequests, 0);
}

suite('what a frontend says it holds', () => {
  test('releases its other bookings of that range of asks at once, and no booking else', () => {
    const bench = new Bench();
    bench.join('w1');
    const [kept, , later] = [1, 2, 3].map((ask) => bench.place(chain(`p${ask}`, 20), { ask }));
    bench.place(chain('unnumbered', 20));
    bench.place(chain('foreign', 20), { ask: 2, frontendId: 'f2' });
    assert.equal(booked(bench), 5);
    const effects = held(bench, { from: 0, before: 3, decisionIds: [kept!.decisionId] });
    assert.deepEqual(
      effects.filter(({ kind }) => kind === 'unheld'),
      [{ kind: 'unheld', frontendId: 'f1', bookings: 1 }],
    );
    assert.equal(booked(bench), 4);
    assert.deepEqual(held(bench, { from: 0, before: 3, decisionIds: [kept!.decisionId] }), []);
    held(bench, { from: 2, before: 4 });
    assert.equal(booked(bench), 3);
    assert.deepEqual(bench.end(later!), []);
  });

  test('counts for what another router booked, and for either leg of a split request', () => {
    const bench = new SplitBench({ mode: 'always' });
    bench.decode('d1');
    bench.prefill('p1');
    const placed = bench.place(chain('a', 100), { ask: 1 });
    held(bench, { before: 2, decisionIds: [placed.decisionId] });
    assert.deepEqual(
      ['d1', 'p1'].map((id) => bench.view(id).bookedRequests),
      [1, 0],
    );
    const foreign = {
      decisionId: 'r2.1',
      routerId: 'r2',
      workerId: 'd1',
      promptTokens: 161,
      maxTokens: 8,
      expectedCachedTokens: 0,
      blocks: 10,
      ask: 2,
    };
    bench.life({ kind: 'booked', ...foreign }, chain('b', 10));
    assert.equal(bench.view('d1').bookedRequests, 2);
    held(bench, { before: 3 });
    assert.equal(bench.booked(), 0);
  });

  test('ends the wait of requests that were given up, and lets others have the room', () => {
    const bench = new Bench();
    bench.join('w1', { kvBlocks: 1_000_000 });
    const others = limit('workerInFlight') - 1;
    for (let i = 0; i < others; i++) bench.place(chain('x', 1), { frontendId: 'f2' });
    bench.place(chain('a', 20), { ask: 1 });
    assert.equal(replyOf(bench.ask(chain('b', 20), { ask: 2 })), undefined);
    assert.equal(replyOf(bench.ask(chain('c', 20), { ask: 3 })), undefined);
    const replies = held(bench, { before: 3 }).flatMap((effect) =>
      effect.kind === 'reply' ? [effect.reply] : [],
    );
    assert.deepEqual(
      replies.map((reply) => (reply.kind === 'reject' ? reply.code : reply.workerId)),
      ['ROUTER_DEADLINE', 'w1'],
    );
    assert.equal(booked(bench), others + 1);
  });
});

/** A frontend as `HeldDecisions` describes it, on a bus that loses answers and ends, and brings lists late and in any order. */
class LossyFrontend {
  readonly #bench: Bench;
  readonly #rng: Rng;
  readonly #id: string;
  readonly #held = new Map<string, { placed: Placed; ask: number }>();
  /** Answers that have not come yet. */
  readonly #due: { placed: Placed; ask: number }[] = [];
  readonly #lists: HeldDecisions[] = [];
  #asks = 0;

  constructor(bench: Bench, rng: Rng, id: string) {
    this.#bench = bench;
    this.#rng = rng;
    this.#id = id;
  }

  get holds(): number {
    return this.#held.size;
  }

  step(): void {
    const bench = this.#bench;
    const at = this.#rng.int(100);
    if (at < 30) {
      const ask = ++this.#asks;
      const prompt = chain(`${this.#id}${ask}`, 3);
      this.#due.push({ placed: bench.place(prompt, { ask, frontendId: this.#id }), ask });
    } else if (at < 60) {
      const [answer] = this.#due.splice(this.#rng.int(this.#due.length + 1), 1);
      if (answer !== undefined && at < 52) this.#held.set(answer.placed.decisionId, answer);
    } else if (at < 80) {
      const [end] = this.#held.values();
      if (end === undefined) return;
      this.#held.delete(end.placed.decisionId);
      if (at < 72) bench.end(end.placed);
    } else if (at < 90) this.#lists.push(this.list());
    else {
      const [list] = this.#lists.splice(this.#rng.int(this.#lists.length + 1), 1);
      if (list !== undefined) held(bench, list, this.#id);
    }
  }

  list(): HeldDecisions {
    const before = Math.min(this.#asks + 1, ...this.#due.map(({ ask }) => ask));
    const decisionIds = [...this.#held.values()]
      .filter(({ ask }) => ask < before)
      .map(({ placed }) => placed.decisionId);
    return { from: 0, before, decisionIds };
  }

  /** All that is awaited is given up, and one list arrives. */
  settle(): void {
    this.#due.length = 0;
    held(this.#bench, this.list(), this.#id);
  }

  endAll(): void {
    for (const { placed } of this.#held.values()) {
      assert.equal(this.#end(placed), 1, `${placed.decisionId} was held and dropped`);
    }
  }

  #end(placed: Placed): number {
    const before = booked(this.#bench);
    this.#bench.end(placed);
    return before - booked(this.#bench);
  }
}

test('on a bus that loses and delays, nothing is dropped that is held, and one list leaves only that', () => {
  let holdings = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const bench = new Bench({}, seed);
    bench.join('w1', { maxRunning: 10_000, kvBlocks: 1_000_000 });
    const rng = createRng(seed);
    const frontends = ['f1', 'f2'].map((id) => new LossyFrontend(bench, rng, id));
    for (let i = 0; i < 200; i++) frontends[rng.int(2)]!.step();
    for (const frontend of frontends) frontend.settle();
    const holds = frontends.reduce((sum, frontend) => sum + frontend.holds, 0);
    assert.equal(booked(bench), holds);
    for (const frontend of frontends) frontend.endAll();
    assert.equal(booked(bench), 0);
    holdings += holds;
  }
  assert.ok(holdings > 50, `${holdings}`);
});
