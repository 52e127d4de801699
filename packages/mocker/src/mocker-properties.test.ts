import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { createMocker } from './mocker.ts';
import { prompt, request, testConfig } from './testing.ts';
import type { Mocker, StepOutput } from './types.ts';

const BLOCK_SIZE = 4;

const keyed = fc.record({
  kind: fc.constantFrom('abort', 'arrive', 'fail', 'release'),
  key: fc.nat(30),
});
const operation = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('begin') }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('end') }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('plain', 'plain', 'stages', 'fetches'),
      family: fc.nat(3),
      familyTokens: fc.integer({ min: 1, max: 24 }),
      ownTokens: fc.nat(12),
      maxTokens: fc.integer({ min: 1, max: 80 }),
    }),
  },
  { weight: 4, arbitrary: keyed },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset') }) },
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;
type Submit = Extract<Operation, { family: number }>;

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

const counts = { preempted: 0, arrived: 0, failed: 0, released: 0, overlaps: 0 };

/** One mocker under any order of calls, with a book of what it owes. */
class Run {
  readonly #mocker: Mocker;
  readonly #replay = new Replay();
  readonly #ends = new Map<number, string>();
  readonly #promptBlocks: number[] = [];
  readonly #stages = new Set<number>();
  readonly #fetches = new Set<number>();
  readonly fetching = new Set<number>();
  readonly staged = new Set<number>();
  isStepping = false;

  constructor(size: { kvBlocks: number; maxRunning: number; maxBatchedTokens: number }) {
    const profile = { ...testConfig().profile, ...size };
    const { kvBlocks } = size;
    this.#mocker = createMocker(testConfig({ blockSize: BLOCK_SIZE, kvBlocks, profile }));
  }

  do(op: Operation): void {
    if ('family' in op) this.#submit(op);
    else if ('key' in op) this.#call(op.kind, op.key);
    else if (op.kind === 'begin' && !this.isStepping) this.begin();
    else if (op.kind === 'end' && this.isStepping) this.end();
    else if (op.kind === 'reset') this.#mocker.resetCache();
    this.check();
  }

  begin(): void {
    const plan = this.#mocker.beginStep(0);
    this.isStepping = plan !== undefined;
    for (const { key, fromBlock, blocks } of plan?.fetches ?? []) {
      assert.ok(this.#fetches.delete(key), 'a fetch is told once, and only of who asked for it');
      assert.equal(fromBlock + blocks, this.#promptBlocks[key], 'what is missing of the prompt');
      assert.ok(blocks >= 1);
      if (fromBlock > 0) counts.overlaps++;
      this.fetching.add(key);
    }
  }

  end(): void {
    const output = this.#mocker.endStep(0);
    this.isStepping = false;
    counts.preempted += output.preempted;
    this.#replay.apply(output);
    for (const { key, finish, tokens } of output.deltas) {
      assert.ok(!this.#ends.has(key), 'nothing follows the end');
      assert.ok(!this.fetching.has(key) || tokens.length === 0, 'no token before the contents');
      if (finish === 'none') continue;
      this.#ends.set(key, finish);
      if (this.#stages.has(key) && (finish === 'length' || finish === 'stop')) this.staged.add(key);
    }
  }

  check(): void {
    this.#mocker.checkInvariants();
    assert.deepEqual(namesOf(this.#mocker.blocks()).toSorted(), this.#replay.sorted());
    const { stagedBlocks, activeBlocks } = this.#mocker.load();
    assert.ok(stagedBlocks <= activeBlocks);
    // The driver hears of a staged request at the end of the step that staged it, so both agree at all times.
    const widest = [...this.staged].map((key) => this.#promptBlocks[key] ?? 0);
    assert.ok(stagedBlocks >= Math.max(0, ...widest), 'no staged block is missing');
    assert.equal(stagedBlocks > 0, this.staged.size > 0);
  }

  /** Steps until nothing is left to do, while what is fetched comes or fails and what is staged goes. */
  settle(): void {
    if (this.isStepping) this.end();
    for (let steps = 0; ; steps++) {
      this.begin();
      if (this.isStepping) this.end();
      else if (this.fetching.size + this.staged.size === 0) break;
      for (const key of this.fetching) this.#call(key % 2 === 0 ? 'arrive' : 'fail', key);
      for (const key of this.staged) this.#call('release', key);
      this.check();
      assert.ok(steps < 20_000, 'comes to rest');
    }
    assert.equal(this.#ends.size, this.#promptBlocks.length, 'each request ended');
    const { activeBlocks, stagedBlocks, running, waiting } = this.#mocker.load();
    assert.deepEqual([activeBlocks, stagedBlocks, running, waiting], [0, 0, 0, 0]);
  }

  #submit(op: Submit): void {
    const key = this.#promptBlocks.length;
    const tokens = prompt(op.family, op.familyTokens, key, op.ownTokens);
    const changes = {
      maxTokens: op.maxTokens,
      stagesKv: op.kind === 'stages',
      fetchesKv: op.kind === 'fetches',
    };
    this.#promptBlocks.push(Math.ceil(tokens.length / BLOCK_SIZE));
    if (changes.stagesKv) this.#stages.add(key);
    if (changes.fetchesKv) this.#fetches.add(key);
    this.#mocker.submit(request(key, tokens, changes, BLOCK_SIZE));
  }

  #call(kind: string, key: number): void {
    if (kind === 'arrive') {
      this.#mocker.kvArrived(key);
      if (this.fetching.delete(key)) counts.arrived++;
    } else if (kind === 'fail') {
      this.#mocker.kvFailed(key, 'gone');
      if (this.fetching.delete(key)) counts.failed++;
    } else if (kind === 'release') {
      this.#mocker.releaseStaged(key);
      if (this.staged.delete(key)) counts.released++;
    } else {
      this.#mocker.abort(key);
      this.fetching.delete(key);
      this.staged.delete(key);
    }
  }
}

it('keeps its books through any order of submits, transfers, aborts, resets and steps', () => {
  const sizes = fc.record({
    kvBlocks: fc.integer({ min: 4, max: 24 }),
    maxRunning: fc.integer({ min: 1, max: 6 }),
    maxBatchedTokens: fc.integer({ min: 1, max: 50 }),
  });
  fc.assert(
    fc.property(sizes, fc.array(operation, { maxLength: 150 }), (size, operations) => {
      const run = new Run(size);
      for (const op of operations) run.do(op);
      run.settle();
    }),
    { numRuns: 3_000, seed: 20_26 },
  );
  for (const [what, count] of Object.entries(counts)) {
    assert.ok(count > 20, `the runs must reach ${what} (${count})`);
  }
});
