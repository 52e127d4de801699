import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { branch, chain, stored } from '../testing.ts';
import { POLICIES } from '../types.ts';
import {
  codeOf,
  GBIT,
  KV_BYTES_PER_TOKEN,
  LONG_BLOCKS,
  SplitBench,
  splitOf,
} from './split.testing.ts';

const LONG = chain('long', LONG_BLOCKS);

function sumOf(terms: Readonly<Record<string, number>>): number {
  return Object.values(terms).reduce((sum, ms) => sum + ms, 0);
}

function benchOf(
  bytesPerMs: number,
  ...config: ConstructorParameters<typeof SplitBench>
): SplitBench {
  const bench = new SplitBench(...config);
  bench.decode('d1');
  bench.prefill('p1');
  bench.link('p1', 'd1', { bytesPerMs });
  return bench;
}

suite('mode auto', () => {
  test('keeps a prompt where it is when the link takes longer than the prefill, and says the figures', () => {
    const bench = benchOf(117_000);
    const effects = bench.ask(LONG);
    assert.equal(codeOf(effects), 'whole');
    const split = splitOf(effects);
    assert.equal(split.cause, 'does_not_pay');
    assert.match(split.reason, /^transfer of 35\d MB at 117 kB\/ms takes 3\.0 s /);
    assert.match(split.reason, /local prefill takes 154 ms, \d+ ms in all at d1$/);
    assert.equal(split.pair?.bytes, (LONG_BLOCKS + 1) * 16 * KV_BYTES_PER_TOKEN);
    assert.equal(split.pair?.source, 'transfers');
    assert.ok(Math.abs(sumOf(split.local.terms) - split.local.totalMs) < 1e-9);
    assert.ok(Math.abs(sumOf(split.pair.terms) - split.pair.totalMs) < 1e-9);
  });

  test('counts a step in both ways of a prompt too short to fill one', () => {
    const bench = benchOf(GBIT);
    bench.prefill('p1', { prefillTokensPerMs: 160, decodeStepMs: 2 });
    bench.link('p1', 'd1');
    bench.decode('d1', { prefillTokensPerMs: 2, decodeStepMs: 130 });
    const { local, pair, reason } = splitOf(bench.ask(chain('short', 1)));
    const whole = 1 - 17 / 1_024;
    assert.equal(local.terms['ownPrefillMs'], 8.5);
    assert.equal(local.terms['baseStepMs'], 130 * whole);
    assert.ok(Math.abs(pair!.terms['prefillMs']! - 17 / 160) < 1e-9);
    assert.ok(Math.abs(pair!.terms['prefillBaseStepMs']! - 2 * whole) < 1e-9);
    assert.equal(pair!.terms['firstStepMs'], 130);
    assert.match(reason, /after a prefill of 2\.1 ms.*; local prefill takes 136 ms/);
  });

  test('leaves the step out where the rate was measured over steps of such prompts', () => {
    const bench = benchOf(GBIT);
    for (let i = 0; i < 60; i++) {
      bench.load('d1', { prefillTokensPerMs: 2, prefillStepTokens: 256, decodeStepMs: 130 });
    }
    const half = splitOf(bench.ask(chain('half', 8))).local.terms['baseStepMs']!;
    assert.ok(Math.abs(half - 130 * (1 - 129 / 256)) < 1, `${half} ms`);
    assert.equal(splitOf(bench.ask(chain('all', 17))).local.terms['baseStepMs'], 0);
  });

  test('splits over a fast link when running decodes would be held up', () => {
    const bench = benchOf(GBIT * 100);
    for (let i = 0; i < 4; i++) bench.computed(bench.place(chain(`running ${i}`, 2)));
    const effects = bench.ask(LONG);
    assert.equal(codeOf(effects), 'split');
    const { cause, local, pair } = splitOf(effects);
    assert.equal(cause, 'pays');
    const ownMs = local.terms['ownPrefillMs']!;
    assert.ok(Math.abs(local.terms['prefillInterferenceMs']! - 4 * ownMs) < 1e-9);
    assert.ok(pair!.totalMs < local.totalMs);
  });

  test('stays local on a tie, and when nobody is in the way and nothing is gained', () => {
    const bench = benchOf(1e12);
    assert.equal(codeOf(bench.ask(LONG)), 'whole');
  });

  test('goes on to split when the cache of the prefill worker is full of prompts that may come again', () => {
    const bench = new SplitBench();
    bench.decode('d1', { kvBlocks: 100_000 });
    bench.prefill('p1', { prefillTokensPerMs: 60 });
    bench.link('p1', 'd1', { bytesPerMs: GBIT * 100 });
    for (let i = 0; i < 12; i++) {
      const prompt = chain(`new ${i}`, LONG_BLOCKS);
      const placed = bench.place(prompt);
      assert.ok(placed.prefill, `prompt ${i} is split`);
      bench.end(bench.computed(bench.legOf(placed)));
      bench.end(bench.computed(placed));
      bench.pass(100, ['d1', 'p1']);
    }
  });

  test('stays local when the decode worker holds most of the prompt, and moves only what it lacks', () => {
    const bench = benchOf(GBIT * 100, { mode: 'always' });
    bench.kv('d1', 1, [stored(LONG.subarray(0, 180 * 2))]);
    const { pair } = splitOf(bench.ask(LONG));
    assert.equal(pair?.bytes, 13 * 16 * KV_BYTES_PER_TOKEN);
    assert.equal(pair.decodeCachedTokens, 180 * 16);
    const auto = benchOf(GBIT * 100);
    for (let i = 0; i < 4; i++) auto.computed(auto.place(chain(`running ${i}`, 2)));
    auto.kv('d1', 1, [stored(LONG)]);
    assert.equal(codeOf(auto.ask(LONG)), 'whole');
  });

  test('a prefix on the prefill worker shortens its prefill', () => {
    const bench = benchOf(GBIT * 100, { mode: 'always' });
    bench.prefill('p2');
    bench.link('p2', 'd1', { bytesPerMs: GBIT * 100 });
    bench.kv('p2', 1, [stored(chain('long', LONG_BLOCKS))]);
    for (let i = 0; i < 5; i++) {
      const effects = bench.ask(branch('long', LONG_BLOCKS, `t${i}`, 1));
      const { pair } = splitOf(effects);
      assert.equal(pair?.prefillWorkerId, 'p2');
      assert.equal(pair.prefillCachedTokens, LONG_BLOCKS * 16);
    }
  });

  test('counts what is booked on the link: of four at once the last waits for the others', () => {
    const bench = benchOf(GBIT, { mode: 'always' });
    const splits = [0, 1, 2, 3].map((i) => splitOf(bench.ask(chain(`p${i}`, LONG_BLOCKS))));
    const [first, , , last] = splits;
    const own = first!.pair!.bytes / GBIT;
    assert.equal(last!.pair!.bytesAhead, first!.pair!.bytes * 3);
    const ratio = last!.pair!.terms['transferMs']! / own;
    // What passes while the prompts are prefilled moves meanwhile.
    assert.ok(ratio > 3.5 && ratio <= 4.1, `${ratio}`);
  });

  test('lets transfers from one host share its rate, and those inside a host not', () => {
    const bench = new SplitBench({ mode: 'always' });
    const onHost = {
      transfer: {
        ...bench.info,
        protocol: 'tcp' as const,
        revision: {},
        kvBytesPerToken: 1000,
        endpoint: '10.0.0.1:1',
      },
    };
    const { transfer } = onHost;
    bench.join('d1', { transfer: { ...transfer, endpoint: '10.0.0.2:1' } });
    bench.join('d2', { transfer: { ...transfer, endpoint: '10.0.0.3:1' } });
    bench.join('d3', { transfer });
    bench.join('p1', { role: 'prefill', transfer });
    bench.place(LONG, { excluded: ['d2', 'd3'] });
    assert.ok(bench.pair('p1', 'd1').bookedBytes > 0);
    const other = splitOf(bench.ask(chain('b', 20), { excluded: ['d1', 'd3'] }));
    assert.equal(other.pair?.bytesAhead, bench.pair('p1', 'd1').bookedBytes);
    const inside = splitOf(bench.ask(chain('c', 20), { excluded: ['d1', 'd2'] }));
    assert.equal(inside.pair?.bytesAhead, 0);
  });

  test('waits for the decode seat and the prefill at the same time, not one after the other', () => {
    const bench = benchOf(GBIT * 100, { mode: 'always' });
    bench.decode('d1', { maxRunning: 1 });
    bench.place(chain('a', 2), { isWhole: true });
    const { pair } = splitOf(bench.ask(LONG));
    const prefillMs = pair!.terms['prefillQueueMs']! + pair!.terms['prefillMs']!;
    assert.ok(pair!.terms['decodeSeatMs']! > 0);
    assert.ok(pair!.terms['decodeSeatMs']! < 640 - prefillMs + 1);
  });

  test('KV that waits to be fetched fills the prefill worker', () => {
    const bench = benchOf(GBIT, { mode: 'always' });
    bench.load('p1', { stagedBlocks: 900, activeBlocks: 900, freeBlocks: 100 });
    const { pair } = splitOf(bench.ask(LONG));
    const lackTokens = LONG_BLOCKS * 16 + 1 - 100 * 16;
    const expectedMs = (lackTokens * KV_BYTES_PER_TOKEN) / GBIT;
    assert.ok(Math.abs(pair!.terms['stagedWaitMs']! - expectedMs) < 1e-6);
  });

  test('takes no part of the decision from who has no prefill workers', () => {
    const bench = new SplitBench();
    bench.decode('d1');
    const effects = bench.ask(LONG);
    assert.equal(effects.find((effect) => effect.kind === 'reply')?.record?.split, undefined);
  });

  for (const policy of POLICIES) {
    test(`holds under policy ${policy}`, () => {
      const bench = benchOf(GBIT * 1000, {}, { policy });
      for (let i = 0; i < 4; i++) bench.computed(bench.place(chain(`running ${i}`, 2)));
      assert.equal(codeOf(bench.ask(LONG)), 'split');
      const slow = benchOf(GBIT, {}, { policy });
      for (let i = 0; i < 4; i++) slow.computed(slow.place(chain(`running ${i}`, 2)));
      assert.equal(codeOf(slow.ask(LONG)), 'whole');
    });
  }
});

suite('a choice among pairs', () => {
  test('takes the decode worker with the better link, and a worker that can pair before ones that cannot', () => {
    const bench = new SplitBench({ mode: 'always' });
    for (let i = 0; i < 6; i++) bench.join(`a${i}`);
    bench.decode('d1');
    bench.decode('d2');
    bench.prefill('p1');
    bench.link('p1', 'd1', { bytesPerMs: GBIT });
    bench.link('p1', 'd2', { bytesPerMs: GBIT * 10 });
    const placed = bench.place(LONG);
    assert.equal(placed.workerId, 'd2');
    assert.equal(placed.prefill?.workerId, 'p1');
  });

  test('spreads a burst over prefill workers', () => {
    const bench = new SplitBench({ mode: 'always' });
    bench.decode('d1');
    for (const id of ['p1', 'p2', 'p3']) {
      bench.prefill(id);
      bench.link(id, 'd1', { bytesPerMs: GBIT * 1000 });
    }
    const counts = new Map<string, number>();
    for (let i = 0; i < 30; i++) {
      const { prefill } = bench.place(chain(`p${i}`, 100));
      counts.set(prefill!.workerId, (counts.get(prefill!.workerId) ?? 0) + 1);
    }
    for (const [id, count] of counts) assert.ok(Math.abs(count - 10) <= 2, `${id}: ${count}`);
  });

  test('repeats with equal seeds', () => {
    const run = (): string[] => {
      const bench = new SplitBench({ mode: 'always' }, {}, 7);
      for (const id of ['d1', 'd2']) bench.decode(id);
      for (const id of ['p1', 'p2']) bench.prefill(id);
      return Array.from({ length: 30 }, (_, i) => {
        const placed = bench.place(chain(`p${i % 7}`, 30));
        return `${placed.prefill?.workerId} ${placed.workerId}`;
      });
    };
    assert.deepEqual(run(), run());
  });

  test('tells what to expect of the legs', () => {
    const bench = benchOf(GBIT, { mode: 'always' });
    bench.kv('p1', 1, [stored(LONG.subarray(0, 200))]);
    const effects = bench.ask(LONG);
    const { pair } = splitOf(effects);
    const placed = effects.find((effect) => effect.kind === 'reply')!.reply;
    assert.ok(placed.kind === 'place' && placed.prefill !== undefined);
    assert.equal(placed.expectedCachedTokens, 0);
    assert.equal(placed.prefill.expectedCachedTokens, 1600);
    assert.equal(placed.prefill.onFailure, 'prefill-locally');
    assert.equal(placed.prefill.predictedTransferMs, pair!.terms['transferMs']);
    const { predictedPrefillMs, predictedTransferMs } = placed.prefill;
    assert.ok(placed.predictedTtftMs! > predictedPrefillMs! + predictedTransferMs!);
  });
});
