import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashBlocks, hashSeed } from '@busbar/blocks';
import type { KvChange, Tier } from '@busbar/protocol';
import fc from 'fast-check';
import type { VllmKvEvent } from './events.ts';
import { RankBlocks } from './rank-blocks.ts';

const BLOCK_SIZE = 4;
const TIER_NAMES = ['device', 'host'] as const;

/** A sequence of blocks; block k of it is told apart from others by `salt` and the tokens up to it. */
interface Sequence {
  salt: string;
  /** Goes into the engine's hash only, as the file of an adapter does. */
  secret: number;
  tokens: number[];
}

type Command =
  | { kind: 'store'; sequence: Sequence; from: number; to: number; tier: Tier }
  | { kind: 'remove'; pick: number; tier: Tier }
  | { kind: 'clear' };

const sequenceArbitrary = fc.record({
  salt: fc.constantFrom('', 'a'),
  secret: fc.nat(1),
  // Few tokens, so that sequences share prefixes.
  tokens: fc
    .array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 4 })
    .map((digits) => digits.flatMap((digit) => Array.from({ length: BLOCK_SIZE }, () => digit))),
});
const tierArbitrary = fc.constantFrom(...TIER_NAMES);
const commandArbitrary: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('store'),
      sequence: sequenceArbitrary,
      from: fc.nat(3),
      to: fc.nat(4),
      tier: tierArbitrary,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('remove'), pick: fc.nat(), tier: tierArbitrary }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear') }) },
);

/** The engine: which of its blocks lie where, one entry for each physical block, and what a router should know of it. */
class NaiveEngine {
  readonly names = new Map<string, bigint>();
  readonly paths = new Map<bigint, Sequence>();
  held: { tier: Tier; hash: bigint }[] = [];

  hashOf(path: Sequence): bigint {
    const text = JSON.stringify(path);
    let hash = this.names.get(text);
    if (hash === undefined) {
      // Large, small and colliding in the low words, as opaque hashes may.
      hash = (BigInt(this.names.size) << 40n) + 7n;
      this.names.set(text, hash);
      this.paths.set(hash, path);
    }
    return hash;
  }

  has(hash: bigint): boolean {
    return this.held.some((block) => block.hash === hash);
  }

  run(command: Command): VllmKvEvent | undefined {
    if (command.kind === 'clear') {
      this.held = [];
      return { kind: 'cleared' };
    }
    if (command.kind === 'remove') {
      const mine = this.held.filter(({ tier }) => tier === command.tier);
      const block = mine[command.pick % Math.max(1, mine.length)];
      if (block === undefined) return undefined;
      this.held.splice(this.held.indexOf(block), 1);
      return { kind: 'removed', hashes: [block.hash], tier: block.tier, group: 0 };
    }
    return this.#store(command);
  }

  #store({ sequence, from, to, tier }: Command & { kind: 'store' }): VllmKvEvent | undefined {
    const { salt, secret, tokens } = sequence;
    const end = Math.min(to, tokens.length / BLOCK_SIZE);
    if (from >= end) return undefined;
    const path = (blocks: number): bigint =>
      this.hashOf({ salt, secret, tokens: tokens.slice(0, blocks * BLOCK_SIZE) });
    const parent = from === 0 ? undefined : path(from);
    // An engine has the parent of what it stores.
    if (parent !== undefined && !this.has(parent)) return undefined;
    const hashes: bigint[] = [];
    for (let i = from; i < end; i++) hashes.push(path(i + 1));
    for (const hash of hashes) this.held.push({ tier, hash });
    return {
      kind: 'stored',
      hashes,
      parent,
      tokens: Uint32Array.from(tokens.slice(from * BLOCK_SIZE, end * BLOCK_SIZE)),
      blockSize: BLOCK_SIZE,
      tier,
      group: 0,
      groupKind: 'full_attention',
      lora: undefined,
      hasUnnamedLora: false,
      extraKeys: hashes.map((_, i) => (from + i === 0 && salt !== '' ? [salt] : undefined)),
    };
  }

  expected(tier: Tier): Set<bigint> {
    const own = new Set<bigint>();
    for (const block of this.held) {
      if (block.tier !== tier) continue;
      const { salt, tokens } = this.paths.get(block.hash)!;
      const all = hashBlocks(Uint32Array.from(tokens), BLOCK_SIZE, hashSeed({ cacheSalt: salt }));
      own.add(toBigInts(all).at(-1)!);
    }
    return own;
  }
}

function toBigInts(words: Uint32Array): bigint[] {
  return Array.from({ length: words.length / 2 }, (_, i) => {
    return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
  });
}

/** What a router that hears the changes knows. It finds fault with what it would have to put up with. */
function follow(known: Set<bigint>, changes: readonly KvChange[]): void {
  for (const change of changes) {
    if (change.kind === 'cleared') known.clear();
    else {
      for (const hash of toBigInts(change.hashes)) {
        if (change.kind === 'stored') {
          assert.ok(!known.has(hash), 'stored twice');
          known.add(hash);
        } else assert.ok(known.delete(hash), 'removed without being stored');
      }
    }
  }
}

test('what a router hears, and what a snapshot says, is what the engine holds', () => {
  fc.assert(
    fc.property(
      fc.array(commandArbitrary, { maxLength: 60, size: 'max' }),
      fc.nat(5),
      (commands, batch) => {
        const engine = new NaiveEngine();
        const blocks = new RankBlocks();
        const known = new Map<Tier, Set<bigint>>(TIER_NAMES.map((tier) => [tier, new Set()]));
        let events: VllmKvEvent[] = [];
        for (const [i, command] of commands.entries()) {
          const event = engine.run(command);
          if (event !== undefined) events.push(event);
          if (events.length <= batch && i < commands.length - 1) continue;
          const applied = blocks.apply(events);
          assert.equal(applied.orphanBlocks, 0);
          for (const { tier, changes } of applied.changes) follow(known.get(tier)!, changes);
          events = [];
          for (const tier of TIER_NAMES) {
            assert.deepEqual(known.get(tier), engine.expected(tier));
            const own = blocks.blocks().find((entry) => entry.tier === tier);
            const snapshot = toBigInts(own?.hashes ?? new Uint32Array());
            assert.equal(new Set(snapshot).size, snapshot.length);
            assert.deepEqual(new Set(snapshot), engine.expected(tier));
          }
        }
        assert.equal(
          blocks.size,
          new Set(engine.held.map(({ tier, hash }) => `${tier}${hash}`)).size,
        );
      },
    ),
    { numRuns: 400 },
  );
});

test('a snapshot names parents before children, also when the parent was stored anew', () => {
  const blocks = new RankBlocks();
  const tokens = Uint32Array.from({ length: 3 * BLOCK_SIZE }, (_, i) => i);
  const event: VllmKvEvent = {
    kind: 'stored',
    hashes: [1n, 2n, 3n],
    parent: undefined,
    tokens,
    blockSize: BLOCK_SIZE,
    tier: 'device',
    group: undefined,
    groupKind: undefined,
    lora: undefined,
    hasUnnamedLora: false,
    extraKeys: undefined,
  };
  const first = { ...event, hashes: [1n], tokens: tokens.subarray(0, BLOCK_SIZE) };
  const removed: VllmKvEvent = { kind: 'removed', hashes: [1n], tier: 'device', group: undefined };
  blocks.apply([event, removed, first]);
  assert.deepEqual(blocks.blocks()[0]?.hashes, hashBlocks(tokens, BLOCK_SIZE, hashSeed()));
});
