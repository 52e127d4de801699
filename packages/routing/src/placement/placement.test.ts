import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Bench, branch, chain, INFO, type Placed, recordOf, replyOf, stored } from '../testing.ts';
import { POLICIES } from '../types.ts';

const FOUR = ['w1', 'w2', 'w3', 'w4'];

function benchOf(
  workers: readonly string[],
  config: ConstructorParameters<typeof Bench>[0] = {},
  seed = 1,
) {
  const bench = new Bench(config, seed);
  for (const id of workers) bench.join(id);
  return bench;
}

function countOf(placed: readonly Placed[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { workerId } of placed) counts.set(workerId, (counts.get(workerId) ?? 0) + 1);
  return counts;
}

suite('equal idle workers', () => {
  for (const policy of POLICIES) {
    test(`get distinct prompts one at a time evenly under ${policy}`, () => {
      const bench = benchOf(FOUR, { policy });
      const placed = Array.from({ length: 200 }, (_, i) => {
        bench.pass(10, FOUR);
        const one = bench.place(chain(`p${i}`, 20));
        bench.first(one);
        bench.kv(one.workerId, bench.sequence(one.workerId), [stored(chain(`p${i}`, 20))]);
        bench.end(one);
        return one;
      });
      const counts = countOf(placed);
      for (const id of FOUR) {
        assert.ok((counts.get(id) ?? 0) >= 30, `${id} of ${JSON.stringify([...counts])}`);
        assert.ok((counts.get(id) ?? 0) <= 70, `${id} of ${JSON.stringify([...counts])}`);
      }
    });
  }

  for (const policy of [
    'predictive',
    'approximate',
    'kv',
    'least-loaded',
    'round-robin',
  ] as const) {
    test(`share a burst of one instant under ${policy}`, () => {
      const bench = benchOf(FOUR, { policy });
      const placed = Array.from({ length: 64 }, (_, i) => bench.place(chain(`p${i}`, 250)));
      for (const [id, count] of countOf(placed)) {
        assert.ok(Math.abs(count - 16) <= 2, `${id}: ${count}`);
      }
    });
  }

  test('share a burst of siblings: they land together until the queue costs more', () => {
    const bench = benchOf(FOUR);
    const placed = Array.from({ length: 64 }, (_, i) =>
      bench.place(branch('shared', 240, `t${i}`, 10)),
    );
    const counts = countOf(placed);
    assert.ok(counts.size > 1, 'not all on one worker');
    const inFlight = placed.filter(({ expectedCachedTokens }) => expectedCachedTokens > 0);
    assert.ok(inFlight.length >= 48, `${inFlight.length} count on a sibling's blocks`);
  });

  test('a few siblings land on one worker', () => {
    const bench = benchOf(FOUR);
    const placed = Array.from({ length: 4 }, (_, i) =>
      bench.place(branch('shared', 240, `t${i}`, 2)),
    );
    assert.equal(countOf(placed).size, 1);
  });
});

suite('a placement', () => {
  test('goes where the prefix is, and says why', () => {
    const bench = benchOf(FOUR);
    bench.kv('w3', 1, [stored(chain('a', 100))]);
    const effects = bench.ask(branch('a', 100, 'tail', 2));
    const reply = replyOf(effects);
    assert.equal(reply?.kind === 'place' && reply.workerId, 'w3');
    assert.equal(reply?.kind === 'place' && reply.expectedCachedTokens, 1600);
    const record = recordOf(effects);
    assert.equal(record.chosen, 'w3');
    assert.equal(record.candidates.length, 4);
    assert.deepEqual(Object.keys(record.candidates[0]!.terms), [
      'queueWaitMs',
      'seatWaitMs',
      'ownPrefillMs',
      'computeMs',
      'tierLoadMs',
      'decodeInterferenceMs',
      'evictionPriceMs',
    ]);
    for (const { terms, totalMs } of record.candidates) {
      const sum = Object.values(terms).reduce((total, ms) => total + ms, 0);
      assert.ok(Math.abs(sum - totalMs) < 1e-9);
    }
    assert.equal(record.candidates[0]!.overlapBlocks, 100);
  });

  test('goes where the prefix is when the engine takes no time at all', () => {
    const bench = new Bench();
    for (const id of FOUR) bench.join(id, { prefillTokensPerMs: 1e6, decodeStepMs: 0 });
    bench.kv('w3', 1, [stored(chain('a', 100))]);
    for (let i = 0; i < 20; i++) {
      const placed = bench.place(branch('a', 100, `t${i}`, 2));
      assert.equal(placed.workerId, 'w3');
      bench.computed(placed);
      bench.end(placed);
    }
  });

  test('leaves a worker whose line is longer than a new prefill', () => {
    const bench = benchOf(['w1', 'w2']);
    bench.kv('w1', 1, [stored(chain('a', 100))]);
    const hashes = chain('a', 100);
    for (let i = 0; i < 3; i++) bench.place(chain(`other${i}`, 100), { workerId: 'w1' });
    assert.equal(bench.place(hashes).workerId, 'w2');
  });

  test('prefers the faster of two workers, in proportion to what they report', () => {
    const bench = benchOf(['fast', 'slow']);
    for (let i = 0; i < 20; i++) {
      bench.load('fast', { prefillTokensPerMs: 40 });
      bench.load('slow', { prefillTokensPerMs: 10 });
    }
    const placed = Array.from({ length: 50 }, (_, i) => bench.place(chain(`p${i}`, 100)));
    const counts = countOf(placed);
    assert.ok((counts.get('fast') ?? 0) >= 36, JSON.stringify([...counts]));
    assert.ok((counts.get('slow') ?? 0) >= 6, JSON.stringify([...counts]));
  });

  test('learns the rate from first tokens when the worker does not report it', () => {
    const bench = benchOf(['w1', 'w2']);
    for (let i = 0; i < 12; i++) {
      const placed = bench.place(chain(`p${i}`, 100), { workerId: 'w1' });
      const { decisionId, workerId } = placed;
      bench.life({ kind: 'firstToken', decisionId, workerId, cachedTokens: 0, ttftMs: 1_000 });
      bench.end(placed);
    }
    assert.equal(bench.place(chain('new', 100)).workerId, 'w2');
    const effects = bench.ask(chain('newer', 100), { workerId: 'w1' });
    assert.ok(recordOf(effects).candidates[0]!.terms['ownPrefillMs']! > 500);
  });

  test('counts blocks on a lower tier as cheaper than computing and dearer than the device', () => {
    const bench = benchOf(['device', 'host', 'none']);
    bench.kv('device', 1, [stored(chain('a', 100))]);
    bench.kv('host', 1, [stored(chain('a', 100))], { tier: 'host' });
    bench.kv('none', 1, [stored(chain('b', 1))]);
    const { candidates } = recordOf(bench.ask(chain('a', 100)));
    const total = new Map(candidates.map(({ workerId, totalMs }) => [workerId, totalMs]));
    assert.ok(total.get('device')! < total.get('host')!);
    assert.ok(total.get('host')! < total.get('none')! / 2);
  });

  test('repeats with equal seeds', () => {
    const run = (): string[] => {
      const bench = benchOf(FOUR, {}, 9);
      return Array.from({ length: 40 }, (_, i) => bench.place(chain(`p${i % 9}`, 30)).workerId);
    };
    assert.deepEqual(run(), run());
  });

  test('round robin goes on by name when workers join and leave', () => {
    const bench = benchOf(['a', 'b', 'd'], { policy: 'round-robin' });
    const next = (): string => bench.place(chain('x', 2)).workerId;
    assert.deepEqual([next(), next()], ['a', 'b']);
    bench.join('c');
    assert.equal(next(), 'c');
    bench.run(bench.core.onWorkerLeft('d', bench.nowMs));
    assert.deepEqual([next(), next()], ['a', 'b']);
  });

  test('keeps models apart', () => {
    const bench = benchOf(['w1']);
    bench.join('w2', { ...INFO, model: 'other' });
    for (let i = 0; i < 5; i++) {
      assert.equal(bench.place(chain(`p${i}`, 5), { model: 'other' }).workerId, 'w2');
    }
  });

  test('finds each cache identity only where it is', () => {
    const bench = benchOf(FOUR);
    FOUR.forEach((id) => bench.kv(id, 1, [stored(chain(`identity of ${id}`, 4))]));
    for (const owner of FOUR) {
      for (const id of FOUR) {
        assert.equal(bench.overlap(id, chain(`identity of ${owner}`, 4)), id === owner ? 4 : 0);
      }
      assert.equal(bench.place(chain(`identity of ${owner}`, 4)).workerId, owner);
    }
  });
});
