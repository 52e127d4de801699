import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { EventHeap } from '../event-heap.ts';
import { payloadBytesPerMs, SimNetwork } from './sim-network.ts';

const GBIT = payloadBytesPerMs(1);

class Bench {
  readonly heap = new EventHeap();
  readonly network = new SimNetwork(this.heap, { gbit: 1, latencyMs: 0 });
  /** When each transfer was over, by name. */
  readonly doneMs = new Map<string, number>();

  /** `ms`: what the transfer takes alone. */
  start(name: string, from: string, to: string, ms: number) {
    return this.network.start(from, to, ms * GBIT, () => {
      this.doneMs.set(name, this.heap.nowMs);
    });
  }

  run(): void {
    while (this.heap.step()) this.network.checkInvariants();
    assert.equal(this.network.running, 0);
  }

  assertDone(name: string, ms: number): void {
    const doneMs = this.doneMs.get(name) ?? Number.NaN;
    assert.ok(Math.abs(doneMs - ms) < 1e-3, `${name} took ${doneMs} ms, not ${ms}`);
  }
}

describe('transfers', () => {
  it('alone get the rate of the interface, after the latency', () => {
    const heap = new EventHeap();
    const network = new SimNetwork(heap, { gbit: 10, latencyMs: 2 });
    let doneMs = 0;
    network.start('a', 'b', 100 * payloadBytesPerMs(10), () => (doneMs = heap.nowMs));
    while (heap.step());
    assert.ok(Math.abs(doneMs - 102) < 1e-6);
    assert.ok(Math.abs(network.bytesMoved / payloadBytesPerMs(10) - 100) < 1e-6);
  });

  it('of one sender share its interface, and the last one has it alone', () => {
    const bench = new Bench();
    bench.start('short', 'a', 'b', 100);
    bench.start('long', 'a', 'c', 300);
    bench.run();
    bench.assertDone('short', 200);
    bench.assertDone('long', 400);
  });

  it('into one receiver share its interface, and those the other way do not', () => {
    const bench = new Bench();
    bench.start('one', 'a', 'c', 100);
    bench.start('two', 'b', 'c', 100);
    bench.start('back', 'c', 'a', 100);
    bench.run();
    bench.assertDone('one', 200);
    bench.assertDone('two', 200);
    bench.assertDone('back', 100);
  });

  it('get what others leave: no interface idles while a transfer could use it', () => {
    const bench = new Bench();
    // Three out of a get a third each; the one into d leaves two thirds of d to the one from b.
    for (const name of ['x', 'y']) bench.start(name, 'a', name, 100);
    bench.start('shared', 'a', 'd', 100);
    bench.start('rest', 'b', 'd', 100);
    bench.run();
    bench.assertDone('rest', 150);
    for (const name of ['x', 'y', 'shared']) bench.assertDone(name, 300);
  });

  it('between workers of one host use no interface', () => {
    const bench = new Bench();
    bench.start('inside', 'a', 'a', 100);
    bench.start('outside', 'a', 'b', 100);
    bench.run();
    bench.assertDone('outside', 100);
    assert.ok(bench.doneMs.get('inside')! < 50);
  });

  it('that are cut leave the rest to others, and count for what they moved', () => {
    const bench = new Bench();
    const flow = bench.start('cut', 'a', 'b', 100);
    bench.start('kept', 'a', 'b', 100);
    bench.heap.at(100, () => {
      assert.ok(Math.abs(bench.network.cut(flow) / GBIT - 50) < 1e-6);
    });
    bench.run();
    bench.assertDone('kept', 150);
    assert.equal(bench.doneMs.has('cut'), false);
    assert.ok(Math.abs(bench.network.bytesMoved / GBIT - 150) < 1e-6);
  });
});

it('whatever is started and cut: all else arrives whole, and no interface carries more than it can', () => {
  const step = fc.record({
    from: fc.constantFrom('a', 'b', 'c'),
    to: fc.constantFrom('a', 'b', 'c', 'd'),
    ms: fc.double({ min: 0.01, max: 200, noNaN: true }),
    atMs: fc.integer({ min: 0, max: 300 }),
    cutMs: fc.option(fc.integer({ min: 0, max: 300 }), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const bench = new Bench();
      let cut = 0;
      steps.forEach(({ from, to, ms, atMs, cutMs }, i) => {
        bench.heap.at(atMs, () => {
          const flow = bench.start(String(i), from, to, ms);
          if (cutMs === undefined) return;
          bench.heap.after(cutMs, () => {
            if (bench.doneMs.has(String(i))) return;
            bench.network.cut(flow);
            cut++;
          });
        });
      });
      bench.run();
      assert.equal(bench.doneMs.size + cut, steps.length);
      for (const [name, doneMs] of bench.doneMs) {
        const { from, to, ms, atMs } = steps[Number(name)]!;
        if (from !== to) assert.ok(doneMs >= atMs + ms - 1e-3, 'faster than the interface');
      }
    }),
    { numRuns: 200 },
  );
});
