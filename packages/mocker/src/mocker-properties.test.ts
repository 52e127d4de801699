import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { createMocker } from './mocker.ts';
import { prompt, request, testConfig } from './testing.ts';
import type { StepOutput } from './types.ts';

const BLOCK_SIZE = 4;

const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('begin' as const) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('end' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      family: fc.nat(3),
      familyTokens: fc.integer({ min: 1, max: 24 }),
      ownTokens: fc.nat(12),
      maxTokens: fc.integer({ min: 1, max: 80 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('abort' as const), key: fc.nat(40) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const) }) },
);

/** The set of blocks that a reader of the events knows. */
class Replay {
  readonly #blocks = new Set<string>();

  apply(output: StepOutput): void {
    for (const change of output.kv) {
      if (change.kind === 'cleared') this.#blocks.clear();
      else {
        for (const block of namesOf(change.hashes)) {
          if (change.kind === 'removed') assert.ok(this.#blocks.delete(block), 'was known');
          else assert.ok(!this.#blocks.has(block), 'told once');
          if (change.kind === 'stored') this.#blocks.add(block);
        }
      }
    }
  }

  sorted(): string[] {
    return [...this.#blocks].toSorted();
  }
}

function namesOf(hashes: Uint32Array): string[] {
  const names: string[] = [];
  for (let at = 0; at < hashes.length; at += 2) names.push(`${hashes[at]}-${hashes[at + 1]}`);
  return names;
}

it('keeps its books through any order of submits, aborts, resets and steps', () => {
  const sizes = fc.record({
    kvBlocks: fc.integer({ min: 4, max: 24 }),
    maxRunning: fc.integer({ min: 1, max: 6 }),
    maxBatchedTokens: fc.integer({ min: 1, max: 50 }),
  });
  let preempted = 0;
  fc.assert(
    fc.property(sizes, fc.array(operation, { maxLength: 120 }), (size, operations) => {
      const profile = { ...testConfig().profile, ...size };
      const mocker = createMocker(
        testConfig({ blockSize: BLOCK_SIZE, kvBlocks: size.kvBlocks, profile }),
      );
      const replay = new Replay();
      const ends = new Map<number, number>();
      let submitted = 0;
      let isStepping = false;
      const end = (): void => {
        const output = mocker.endStep(0);
        isStepping = false;
        preempted += output.preempted;
        replay.apply(output);
        for (const { key, finish } of output.deltas) {
          assert.ok(!ends.has(key), 'nothing follows the end');
          if (finish !== 'none') ends.set(key, 1);
        }
      };
      const begin = (): void => {
        isStepping = mocker.beginStep(0) !== undefined;
      };
      const check = (): void => {
        mocker.checkInvariants();
        assert.deepEqual(namesOf(mocker.blocks()).toSorted(), replay.sorted());
      };
      for (const op of operations) {
        if (op.kind === 'begin' && !isStepping) begin();
        else if (op.kind === 'end' && isStepping) end();
        else if (op.kind === 'abort') mocker.abort(op.key);
        else if (op.kind === 'reset') mocker.resetCache();
        else if (op.kind === 'submit') {
          const tokens = prompt(op.family, op.familyTokens, submitted, op.ownTokens);
          const changes = { maxTokens: op.maxTokens };
          mocker.submit(request(submitted++, tokens, changes, BLOCK_SIZE));
        }
        check();
      }
      if (isStepping) end();
      for (let steps = 0; ; steps++) {
        begin();
        if (!isStepping) break;
        end();
        check();
        assert.ok(steps < 20_000, 'comes to rest');
      }
      assert.equal(ends.size, submitted);
      assert.equal(mocker.load().activeBlocks, 0);
    }),
    { numRuns: 500, seed: 20_26 },
  );
  assert.ok(preempted > 50, `the runs must reach preemption (${preempted})`);
});
