import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { branch, chain } from '../testing.ts';
import { HeldBlocks } from './held-blocks.ts';

test('held blocks are counted by worker and end with their last holder', () => {
  const names = ['a', 'b', 'a/x', 'a/y'];
  const chains = names.map((name) =>
    name.includes('/') ? branch('a', 6, name, 4) : chain(name, 10),
  );
  const step = fc.record({ slot: fc.nat(3), which: fc.nat(3), from: fc.constantFrom(0, 0, 4) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const held = new HeldBlocks();
      const live: typeof steps = [];
      for (const one of steps) {
        held.hold(one.slot, chains[one.which]!, one.from);
        live.push(one);
        if (live.length % 3 === 0) {
          const gone = live.shift()!;
          held.release(gone.slot, chains[gone.which]!, gone.from);
        }
        for (let slot = 0; slot < 4; slot++) {
          const blocks = new Set<string>();
          for (const { slot: at, which, from } of live) {
            if (at !== slot) continue;
            for (let i = from; i < 10; i++)
              blocks.add(chains[which]!.slice(i * 2, i * 2 + 2).join());
          }
          assert.equal(held.blocksOf(slot), blocks.size);
          const whole = live.some(
            ({ slot: at, which, from }) => at === slot && which === 0 && from === 0,
          );
          if (whole) assert.equal(held.depth(slot, chains[0]!, 0), 10);
        }
      }
      for (const { slot, which, from } of live) held.release(slot, chains[which]!, from);
      assert.equal(held.size, 0);
      assert.equal(held.depth(0, chains[0]!, 0), 0);
    }),
  );
});
