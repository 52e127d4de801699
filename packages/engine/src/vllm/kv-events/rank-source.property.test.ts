import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { removedEvent, storedEvent } from './fake-publisher.testing.ts';
import type { SequencedPayload } from './frames.ts';
import { ProblemTeller } from './problem-teller.ts';
import { RankSource } from './rank-source.ts';
import { chains, RouterView } from './router-view.testing.ts';

type Step =
  | { kind: 'store' | 'remove'; pick: number; isLost: boolean }
  | { kind: 'clear'; isLost: boolean }
  | { kind: 'garbage' }
  | { kind: 'restart' };

const lostArbitrary = fc.boolean();
const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('store'), pick: fc.nat(), isLost: lostArbitrary }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('remove'), pick: fc.nat(), isLost: lostArbitrary }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear'), isLost: lostArbitrary }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'garbage' }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' }) },
);

/** An engine whose blocks are paths of numbers; a block's engine hash is made of its path, as the tokens of `storedEvent` are of its hash. */
class Engine {
  held: number[][] = [];
  sequence = 0;
  buffer: SequencedPayload[] = [];
  readonly #bufferSteps: number;
  readonly #hashes = new Map<string, number>();

  constructor(bufferSteps: number) {
    this.#bufferSteps = bufferSteps;
  }

  next(step: Step): unknown[] {
    if (step.kind === 'store') {
      const parents = [[], ...this.held];
      const parent = parents[step.pick % parents.length]!;
      const path = [...parent, this.#hash([...parent, step.pick % 3])];
      this.held.push(path);
      return [storedEvent([path.at(-1)!], parent.at(-1))];
    }
    if (step.kind === 'remove') {
      const path = this.held[step.pick % Math.max(1, this.held.length)];
      if (path === undefined) return [];
      this.held.splice(this.held.indexOf(path), 1);
      return [removedEvent(path.at(-1)!)];
    }
    if (step.kind === 'clear') {
      this.held = [];
      return [{ type: 'AllBlocksCleared' }];
    }
    return [];
  }

  publish(events: unknown[]): SequencedPayload {
    const message = { sequence: this.sequence++, payload: encode([1.5, events, 0]) };
    this.buffer = [...this.buffer, message].slice(-this.#bufferSteps);
    return message;
  }

  restart(): void {
    this.held = [];
    this.sequence = 0;
    this.buffer = [];
  }

  blocks(): Set<bigint> {
    return new Set(this.held.map((path) => [...chains(path)].at(-1)!));
  }

  #hash(path: number[]): number {
    const text = path.join('.');
    const hash = this.#hashes.get(text) ?? this.#hashes.size + 1;
    this.#hashes.set(text, hash);
    return hash;
  }
}

async function run(steps: readonly Step[], bufferSteps: number): Promise<void> {
  const engine = new Engine(bufferSteps);
  const view = new RouterView();
  const source = new RankSource({
    dpRank: 0,
    sink: view.sink,
    hasSiblings: false,
    replay: async (from, take) => {
      for (const answer of engine.buffer) {
        if (answer.sequence >= from && !take(answer)) return undefined;
      }
      return undefined;
    },
    problems: new ProblemTeller(
      () => undefined,
      () => 0,
    ),
    nowMs: () => 0,
  });
  const hear = async ({ sequence, payload }: SequencedPayload): Promise<void> => {
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(BigInt(sequence));
    await source.hear([new Uint8Array(), number, payload]);
    const known = view.device();
    const held = engine.blocks();
    for (const hash of known) assert.ok(held.has(hash), 'a block that is gone is believed');
    const isWhole = bufferSteps > steps.length;
    if (isWhole) assert.equal(known.size, held.size, 'a block that is there is unknown');
  };
  for (const step of steps) {
    if (step.kind === 'restart') {
      engine.restart();
      // Its first message is heard: otherwise numbers alone cannot tell.
      await hear(engine.publish([]));
    } else if (step.kind === 'garbage') {
      // Broken on its way; whole in the buffer.
      const { sequence } = engine.publish([]);
      await hear({ sequence, payload: Uint8Array.of(0xc1) });
    } else {
      const message = engine.publish(engine.next(step));
      if (!step.isLost) await hear(message);
    }
  }
  await hear(engine.publish([]));
}

test('with all messages kept, losses on the way change nothing; with few, nothing false is believed', async () => {
  const steps = fc.array(stepArbitrary, { maxLength: 60, size: 'max' });
  const buffers = fc.constantFrom(1, 2, 5, 1_000);
  await fc.assert(
    fc.asyncProperty(steps, buffers, (all, bufferSteps) => run(all, bufferSteps)),
    { numRuns: 300 },
  );
});
