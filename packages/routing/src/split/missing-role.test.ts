import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { chain, replyOf } from '../testing.ts';
import type { RouterEffect } from '../types.ts';
import { codeOf, SplitBench, splitOf, transferOf } from './split.testing.ts';

const PROMPT = chain('a', 100);

function messageOf(effects: readonly RouterEffect[]): string {
  const reply = replyOf(effects);
  return reply?.kind === 'reject' ? reply.message : '';
}

suite('a role is missing', () => {
  test('strict: no prefill worker is registered, and one that comes later is used at once', () => {
    for (const mode of ['always', 'threshold'] as const) {
      const bench = new SplitBench({ mode, isStrict: true, thresholdTokens: 100 });
      bench.decode('d1');
      const refused = bench.ask(PROMPT);
      assert.equal(codeOf(refused), 'ROUTER_NO_PAIR');
      assert.match(messageOf(refused), /no prefill worker serves this model/);
      assert.equal(bench.booked(), 0);
      bench.prefill('p1');
      assert.equal(codeOf(bench.ask(PROMPT)), 'split');
    }
  });

  test('fallback: served whole, and counted as such', () => {
    for (const mode of ['always', 'threshold'] as const) {
      const bench = new SplitBench({ mode, thresholdTokens: 100 });
      bench.decode('d1');
      const effects = bench.ask(PROMPT);
      assert.equal(codeOf(effects), 'whole');
      assert.equal(splitOf(effects).cause, 'no_prefill');
      bench.prefill('p1');
      assert.equal(codeOf(bench.ask(chain('b', 100))), 'split');
    }
  });

  test('no decode worker, whichever came first: nobody serves, and the message names the role', () => {
    for (const isStrict of [true, false]) {
      const bench = new SplitBench({ mode: 'always', isStrict });
      bench.prefill('p1');
      const refused = bench.ask(PROMPT);
      assert.equal(codeOf(refused), 'ROUTER_NO_WORKERS');
      assert.match(messageOf(refused), /no decode worker/);
      bench.decode('d1');
      assert.equal(codeOf(bench.ask(PROMPT)), 'split');
    }
  });

  test('a silent prefill worker: strict requests wait for it, others are served whole', () => {
    const strict = new SplitBench({ mode: 'always', isStrict: true }, { queueWaitMs: 1_000 });
    const fallback = new SplitBench({ mode: 'always' });
    for (const bench of [strict, fallback]) {
      bench.decode('d1');
      bench.prefill('p1');
      bench.pass(1_000, ['d1']);
    }
    assert.equal(splitOf(fallback.ask(PROMPT)).cause, 'prefill_unavailable');
    assert.equal(codeOf(strict.ask(PROMPT)), 'waits');
    assert.equal(codeOf(strict.ask(chain('b', 9))), 'waits');
    // One that need not be split does not wait behind those that must.
    assert.equal(codeOf(strict.ask(chain('c', 9), { isWhole: true })), 'whole');
    const placed = strict.load('p1').filter((effect) => effect.kind === 'reply');
    assert.equal(placed.length, 2);
    assert.ok(placed.every(({ reply }) => reply.kind === 'place' && reply.prefill !== undefined));
    strict.pass(1_000, ['d1']);
    assert.equal(codeOf(strict.ask(PROMPT)), 'waits');
    strict.pass(1_100, ['d1']);
    const late = strict.effects.findLast((effect) => effect.kind === 'reply')?.reply;
    assert.equal(late?.kind === 'reject' && late.code, 'ROUTER_NO_PAIR');
  });

  test('no pair can be formed: strict refuses with the difference, fallback serves whole', () => {
    const differing = { transfer: transferOf('h', { revision: { engine: 'mock 2' } }) };
    const strict = new SplitBench({ mode: 'always', isStrict: true });
    const fallback = new SplitBench({ mode: 'always' });
    for (const bench of [strict, fallback]) {
      bench.decode('d1');
      bench.prefill('p1', differing);
    }
    const refused = strict.ask(PROMPT);
    assert.equal(codeOf(refused), 'ROUTER_NO_PAIR');
    assert.match(messageOf(refused), /revision engine is mock 2 at prefill and mock 1 at decode/);
    const effects = fallback.ask(PROMPT);
    assert.equal(codeOf(effects), 'whole');
    assert.equal(splitOf(effects).cause, 'no_pair');
  });

  test('prefill workers whose legs fail are left alone for a while; strict has no choice', () => {
    for (const isStrict of [true, false]) {
      const bench = new SplitBench({ mode: 'always', isStrict });
      bench.decode('d1');
      bench.prefill('p1');
      const fail = (): void => {
        const placed = bench.place(PROMPT);
        bench.end(bench.legOf(placed), 'failed');
        bench.end(placed, 'failed');
      };
      fail();
      fail();
      assert.equal(
        codeOf(bench.ask(PROMPT)),
        'split',
        'single failures may be the fault of a request',
      );
      fail();
      assert.equal(codeOf(bench.ask(PROMPT)), isStrict ? 'split' : 'whole');
      bench.pass(5_100, ['d1', 'p1']);
      assert.equal(codeOf(bench.ask(PROMPT)), 'split');
    }
  });

  test('short prompts under the threshold never wait for a prefill worker', () => {
    for (const isStrict of [true, false]) {
      const bench = new SplitBench({ mode: 'threshold', thresholdTokens: 160, isStrict });
      bench.decode('d1');
      const effects = bench.ask(chain('short', 9));
      assert.equal(codeOf(effects), 'whole');
      assert.equal(splitOf(effects).cause, 'below_threshold');
      assert.match(splitOf(effects).reason, /145 uncached tokens at d1 are not above 160/);
      bench.prefill('p1');
      assert.equal(codeOf(bench.ask(chain('short 2', 9))), 'whole');
      assert.equal(codeOf(bench.ask(chain('longer', 10))), 'split');
    }
  });

  test('strict says that a failed split fails', () => {
    const bench = new SplitBench({ mode: 'always', isStrict: true });
    bench.decode('d1');
    bench.prefill('p1');
    assert.equal(bench.place(PROMPT).prefill?.onFailure, 'fail');
  });
});

suite('who never is split', () => {
  test('whole requests, and those for one worker, in every mode', () => {
    for (const mode of ['auto', 'always', 'threshold'] as const) {
      const bench = new SplitBench({ mode, isStrict: true, thresholdTokens: 0 });
      bench.decode('d1');
      bench.prefill('p1');
      assert.equal(codeOf(bench.ask(PROMPT, { isWhole: true })), 'whole');
      assert.equal(codeOf(bench.ask(PROMPT, { workerId: 'd1' })), 'whole');
    }
  });

  test('mode never, and no request ever goes to a prefill worker alone', () => {
    const bench = new SplitBench({ mode: 'never' });
    bench.decode('d1');
    bench.prefill('p1');
    for (let i = 0; i < 10; i++) assert.equal(bench.place(chain(`p${i}`, 20)).workerId, 'd1');
    assert.equal(bench.view('p1').bookedRequests, 0);
    assert.equal(codeOf(bench.ask(PROMPT, { excluded: ['d1'] })), 'waits');
  });

  test('excluded prefill workers, and those without the adapter', () => {
    const bench = new SplitBench({ mode: 'always' });
    bench.decode('d1', { loras: ['sql'] });
    bench.prefill('p1');
    bench.prefill('p2', { loras: ['sql'] });
    for (let i = 0; i < 5; i++) {
      assert.equal(bench.place(chain(`p${i}`, 9), { excluded: ['p2'] }).prefill?.workerId, 'p1');
      assert.equal(bench.place(chain(`q${i}`, 9), { lora: 'sql' }).prefill?.workerId, 'p2');
    }
  });
});

suite('a link that is not proven', () => {
  const nixl = (host: string) => ({ transfer: transferOf(host, { protocol: 'nixl' }) });
  function benchOf(...config: ConstructorParameters<typeof SplitBench>): SplitBench {
    const bench = new SplitBench(...config);
    bench.decode('d1', nixl('d'));
    bench.prefill('p1', nixl('p'));
    bench.link('p1', 'd1', { transferProtocol: 'nixl', transfers: 0, source: 'probe' });
    return bench;
  }

  test('is used by no request until KV came over it, nor when its worker began anew', () => {
    const bench = benchOf({ mode: 'always' });
    const whole = bench.ask(PROMPT);
    assert.equal(codeOf(whole), 'whole');
    assert.match(splitOf(whole).reason, /no KV came over a link yet/);
    assert.equal(bench.pair('p1', 'd1').isProven, false);
    bench.link('p1', 'd1', { transferProtocol: 'nixl', transfers: 0, isProven: true });
    assert.equal(bench.pair('p1', 'd1').isProven, true);
    assert.equal(codeOf(bench.ask(chain('b', 100))), 'split');
    bench.run(bench.core.onLinkGone('p1', 'd1'));
    assert.equal(codeOf(bench.ask(chain('c', 100))), 'whole');
    bench.core.checkInvariants();
  });

  test('strict: requests wait for it', () => {
    const bench = benchOf({ mode: 'always', isStrict: true });
    assert.equal(codeOf(bench.ask(PROMPT)), 'waits');
    const proven = { transferProtocol: 'nixl', isProven: true } as const;
    assert.equal(codeOf(bench.link('p1', 'd1', proven)), 'split');
    assert.deepEqual(bench.link('p1', 'd1', proven), []);
  });
});
