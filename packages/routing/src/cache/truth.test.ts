import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { WorkerLoad } from '@busbar/protocol';
import { Bench, branch, chain, stored, truthsOf } from '../testing.ts';

const HOUR = 3_600_000;

suite('a worker without KV events', () => {
  test('is demoted when its engine stored blocks and no event came', () => {
    const bench = new Bench({ eventGraceMs: 2_000 });
    bench.join('w1');
    bench.load('w1', { storedBlocksTotal: 0 });
    bench.nowMs = 100;
    bench.load('w1', { storedBlocksTotal: 97 });
    for (bench.nowMs = 500; bench.nowMs <= 2_000; bench.nowMs += 375) {
      assert.deepEqual(truthsOf(bench.load('w1', { storedBlocksTotal: 97 })), []);
    }
    bench.nowMs = 2_100;
    const effects = bench.load('w1', { storedBlocksTotal: 97 });
    assert.deepEqual(truthsOf(effects), ['w1 events to approximate']);
    assert.equal(
      bench.view('w1').reason,
      'no KV event within 2000 ms although its engine stored 97 blocks',
    );
  });

  test('is demoted after a prefill that must have stored blocks, without a heartbeat that counts', () => {
    const bench = new Bench({ eventGraceMs: 2_000 });
    bench.join('w1');
    const placed = bench.place(chain('a', 10));
    bench.first(placed, 0);
    const wakes = bench.effects.filter((effect) => effect.kind === 'wake');
    assert.ok(
      wakes.some(({ atMs }) => atMs <= 2_000),
      'the core asks to be called in time',
    );
    for (bench.nowMs = 200; bench.nowMs <= 1_000; bench.nowMs += 200) bench.load('w1');
    bench.nowMs = 2_000;
    const effects = bench.run(bench.core.onTick(bench.nowMs));
    assert.deepEqual(truthsOf(effects), ['w1 events to approximate']);
    assert.match(bench.view('w1').reason, /a prefill ended that must have stored 10 blocks/);
  });

  test('is not demoted by the clock alone: after a standstill its events are still to be read', () => {
    const bench = new Bench({ eventGraceMs: 2_000 });
    bench.join('w1');
    bench.load('w1', { storedBlocksTotal: 0 });
    bench.load('w1', { storedBlocksTotal: 97 });
    bench.nowMs = 9_000;
    assert.deepEqual(truthsOf(bench.run(bench.core.onTick(bench.nowMs))), []);
    for (let beat = 0; beat < 3; beat++) {
      assert.deepEqual(truthsOf(bench.load('w1', { storedBlocksTotal: 97 })), []);
    }
    bench.kv('w1', 1, [{ kind: 'stored', hashes: chain('a', 10) }]);
    bench.pass(5_000, ['w1']);
    assert.equal(bench.view('w1').truth, 'events');
  });

  test('is not demoted for a prefill that stored nothing new', () => {
    const bench = new Bench();
    bench.join('w1');
    const placed = bench.place(chain('a', 10));
    bench.first(placed, 160);
    bench.pass(10_000, ['w1']);
    assert.equal(bench.view('w1').truth, 'events');
  });

  test('is not demoted for a prompt that was cached whole, whose last token is computed all the same', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.kv('w1', 1, [stored(chain('a', 10))]);
    bench.pass(5_000, ['w1']);
    bench.first(bench.place(chain('a', 10), { promptTokens: 160 }), 144);
    bench.pass(5_000, ['w1']);
    assert.equal(bench.view('w1').truth, 'events');
  });

  test('is not demoted while it idles, nor when the event came before the heartbeat that counts it', () => {
    const bench = new Bench();
    bench.join('w1');
    bench.load('w1', { storedBlocksTotal: 0 });
    bench.kv('w1', 1, [stored(chain('a', 10))]);
    for (bench.nowMs = 100; bench.nowMs < 20_000; bench.nowMs += 100) {
      bench.load('w1', { storedBlocksTotal: 10, kvSequence: 1 });
    }
    assert.equal(bench.view('w1').truth, 'events');
  });

  test('is not demoted when its engine counts at the end what events told of while the request ran', () => {
    const bench = new Bench({ eventGraceMs: 2_000 });
    bench.join('w1');
    bench.load('w1');
    for (let block = 1; block <= 10; block++) {
      bench.nowMs += 300;
      bench.kv('w1', block, [stored(chain(`a${block}`, 1))]);
      for (let beat = 0; beat < 2; beat++) {
        bench.nowMs += 100;
        bench.load('w1', { kvSequence: block, activeBlocks: block + 1 });
      }
    }
    const counted = { kvSequence: 10, storedBlocksTotal: 10 };
    const beat = (load: Partial<WorkerLoad>): string[] => {
      bench.nowMs += 100;
      return truthsOf(bench.load('w1', load));
    };
    for (let i = 0; i < 100; i++) assert.deepEqual(beat(counted), []);
    const silent = Array.from({ length: 40 }, () => beat({ ...counted, storedBlocksTotal: 12 }));
    assert.deepEqual(silent.flat(), ['w1 events to approximate'], 'what no event tells is missed');
  });

  test('that announces it is demoted at once, with the reason', () => {
    const bench = new Bench();
    assert.deepEqual(truthsOf(bench.join('w1', { kvEvents: false })), ['w1 events to approximate']);
    assert.match(bench.view('w1').reason, /announces that it sends no KV events/);
    assert.equal(bench.view('w1').isAvailable, true);
  });

  test('is promoted again when events come', () => {
    const bench = new Bench();
    bench.join('w1', { kvEvents: false });
    bench.nowMs = 1_000;
    const effects = bench.kv('w1', 4, [stored(chain('b', 4))]);
    assert.equal(effects.filter(({ kind }) => kind === 'sync').length, 1);
    assert.deepEqual(truthsOf(bench.snapshot('w1', 4, chain('b', 4))), [
      'w1 approximate to events',
    ]);
    bench.load('w1');
    assert.equal(bench.overlap('w1', chain('b', 4)), 4);
  });

  test('is routed by where prompts went, known from before the demotion on', () => {
    const bench = new Bench({ eventGraceMs: 500 });
    bench.join('w1');
    bench.join('w2');
    const homes = ['a', 'b', 'c', 'd'].map((name) => {
      const placed = bench.place(branch(name, 20, 'first', 2));
      bench.first(placed, 0);
      bench.end(placed);
      return placed.workerId;
    });
    bench.pass(2_000, ['w1', 'w2']);
    assert.equal(bench.view('w1').truth, 'approximate');
    const again = ['a', 'b', 'c', 'd'].map((name) => bench.place(branch(name, 20, 'second', 2)));
    assert.deepEqual(
      again.map(({ workerId }) => workerId),
      homes,
    );
    assert.deepEqual(
      again.map(({ expectedCachedTokens }) => expectedCachedTokens),
      [320, 320, 320, 320],
    );
  });
});

suite('a guess', () => {
  test('is forgotten after its time to live, and refreshed by use', () => {
    const bench = new Bench({ policy: 'approximate', approximateTtlMs: 10_000 });
    bench.join('w1');
    for (const name of ['a', 'b']) bench.end(bench.computed(bench.place(chain(name, 5))));
    bench.pass(8_000, ['w1']);
    bench.end(bench.computed(bench.place(chain('a', 5))));
    bench.pass(8_000, ['w1']);
    assert.equal(bench.overlap('w1', chain('a', 5)), 5);
    assert.equal(bench.overlap('w1', chain('b', 5)), 0);
  });

  test('is bounded by the capacity of the worker: the least recently used goes', () => {
    const bench = new Bench({ policy: 'approximate', approximateTtlMs: HOUR });
    bench.join('w1', { kvBlocks: 100 });
    for (let i = 0; i < 30; i++) bench.end(bench.computed(bench.place(chain(`p${i}`, 10))));
    assert.ok(bench.view('w1').indexedBlocks <= 100);
    assert.equal(bench.overlap('w1', chain('p29', 10)), 10);
    assert.equal(bench.overlap('w1', chain('p0', 10)), 0);
  });

  test('of 20,000 unique prompts takes no more room than of 2,000', () => {
    const bench = new Bench({ policy: 'approximate', approximateTtlMs: HOUR });
    bench.join('w1');
    const { core } = bench;
    let most = 0;
    for (let i = 0; i < 20_000; i++) {
      const hashes = chain(`p${i}`, 10);
      const request = {
        model: 'm',
        frontendId: 'f',
        promptTokens: 161,
        maxTokens: 8,
        deadlineMs: 1,
      };
      const [effect] = core.onRequest({ key: i, request, hashes }, 0);
      if (effect?.kind !== 'reply' || effect.reply.kind !== 'place') throw new Error('not placed');
      const { decisionId, workerId } = effect.reply;
      core.onLife(
        'f',
        { kind: 'firstToken', decisionId, workerId, cachedTokens: 0, ttftMs: 1 },
        hashes,
        0,
      );
      core.onLife(
        'f',
        { kind: 'ended', decisionId, workerId, outcome: 'completed', outputTokens: 8 },
        hashes,
        0,
      );
      most = Math.max(most, core.workers(0)[0]!.indexedBlocks);
    }
    core.checkInvariants();
    assert.ok(most <= 1_000, `${most} blocks`);
  });

  test('follows what other routers place', () => {
    const bench = new Bench({ policy: 'approximate' });
    bench.join('w1');
    bench.join('w2');
    const hashes = chain('a', 10);
    const fields = { decisionId: 'other-1', workerId: 'w2' };
    const booked = { promptTokens: 161, maxTokens: 8, expectedCachedTokens: 0, blocks: 10 };
    bench.life({ kind: 'booked', routerId: 'r2', ...fields, ...booked }, hashes, 'f2');
    assert.equal(bench.view('w2').bookedPrefillTokens, 161);
    assert.equal(bench.place(hashes).workerId, 'w2', 'a sibling of what runs there');
    bench.life({ kind: 'firstToken', ...fields, cachedTokens: 0, ttftMs: 50 });
    bench.life({ kind: 'ended', ...fields, outcome: 'completed', outputTokens: 8 });
    assert.equal(bench.overlap('w2', hashes), 10);
  });
});

suite('expected and reported cached tokens', () => {
  test('that keep apart demote a worker, step by step, and later it is tried again', () => {
    const bench = new Bench({ loadSilenceMs: HOUR, approximateTtlMs: HOUR });
    bench.join('w1');
    bench.kv('w1', 1, [stored(chain('a', 10))]);
    const ask = (): void => {
      const placed = bench.place(chain('a', 10));
      bench.first(placed, 0);
      bench.kv('w1', bench.sequence('w1') + 1, []);
      bench.end(placed);
    };
    for (let i = 0; i < 15; i++) ask();
    assert.equal(bench.view('w1').truth, 'events');
    ask();
    assert.equal(bench.view('w1').truth, 'approximate');
    assert.match(
      bench.view('w1').reason,
      /100 % of the tokens expected in its cache were not there/,
    );
    for (let i = 0; i < 17; i++) ask();
    assert.equal(bench.view('w1').truth, 'load-only');
    assert.equal(bench.overlap('w1', chain('a', 10)), 0);
    bench.pass(31_000, ['w1']);
    assert.equal(bench.view('w1').truth, 'approximate');
  });

  test('that agree, or find more than expected, change nothing', () => {
    const bench = new Bench({ loadSilenceMs: HOUR });
    bench.join('w1');
    bench.kv('w1', 1, [stored(chain('a', 10))]);
    for (let i = 0; i < 40; i++) {
      const placed = bench.place(chain('a', 10));
      bench.first(placed, 160);
      bench.end(placed);
    }
    assert.equal(bench.view('w1').truth, 'events');
    assert.equal(bench.view('w1').expectedCachedTokensTotal, 6_400);
    assert.equal(bench.view('w1').reportedCachedTokensTotal, 6_400);
  });

  test('of siblings that ran side by side are not held against the worker', () => {
    const bench = new Bench({ loadSilenceMs: HOUR, eventGraceMs: HOUR });
    bench.join('w1');
    for (let i = 0; i < 40; i++) {
      const pair = [bench.place(chain(`p${i}`, 10)), bench.place(chain(`p${i}`, 10))];
      assert.equal(pair[1]!.expectedCachedTokens, 160);
      for (const placed of pair) bench.first(placed, 0);
      for (const placed of pair) bench.end(placed);
    }
    assert.equal(bench.view('w1').truth, 'events');
  });
});

test('hashes of another block size demote for good', () => {
  const bench = new Bench();
  bench.join('w1', { blockSize: 64 });
  const effects = bench.ask(chain('a', 40));
  assert.deepEqual(truthsOf(effects), ['w1 events to approximate']);
  assert.match(bench.view('w1').reason, /blocks of 64 tokens/);
  bench.nowMs += HOUR;
  assert.deepEqual(bench.kv('w1', 1, [stored(chain('a', 40))]), []);
});
