import { type PrefixResult, runPrefixWorkload } from '../prefix-workload.ts';
import type { BenchContext } from '../run.ts';
import { stackFlags, startStack } from '../stack.ts';

interface Shape {
  name: string;
  prefixes: number;
  kvBlocks: string;
  flags: readonly string[];
  seeds: readonly number[];
}

const SHAPES: readonly Shape[] = [
  { name: '12 prefixes, 926/926', prefixes: 12, kvBlocks: '926,926', flags: [], seeds: [1, 2, 3] },
  { name: '18 prefixes, 926/926', prefixes: 18, kvBlocks: '926,926', flags: [], seeds: [1, 2] },
  { name: '24 prefixes, 926/1693', prefixes: 24, kvBlocks: '926,1693', flags: [], seeds: [1, 2] },
  { name: '24 prefixes, 926/926', prefixes: 24, kvBlocks: '926,926', flags: [], seeds: [1, 2] },
  {
    name: '12 prefixes, events missing',
    prefixes: 12,
    kvBlocks: '926,926',
    flags: ['--no-kv-events'],
    seeds: [1, 2, 3],
  },
  {
    name: '12 prefixes, round robin',
    prefixes: 12,
    kvBlocks: '926,926',
    flags: ['--policy', 'round-robin'],
    seeds: [1, 2, 3],
  },
  {
    name: '12 prefixes, random',
    prefixes: 12,
    kvBlocks: '926,926',
    flags: ['--policy', 'random'],
    seeds: [1, 2, 3],
  },
  {
    name: '12 prefixes, kv',
    prefixes: 12,
    kvBlocks: '926,926',
    flags: ['--policy', 'kv'],
    seeds: [1, 2, 3],
  },
];

/** Re-requests that found their prefix, for every shape and seed, each on a fresh stack. */
export async function benchPrefix(context: BenchContext): Promise<unknown> {
  const results: { shape: string; seed: number; result: PrefixResult }[] = [];
  for (const shape of SHAPES) {
    for (const seed of shape.seeds) {
      const stack = await startStack([
        ...stackFlags(context, 'seed-8gb', shape.kvBlocks),
        '--decode',
        '2',
        ...shape.flags,
      ]);
      try {
        const result = await runPrefixWorkload({
          url: stack.url,
          model: context.model,
          prefixes: shape.prefixes,
          rounds: 6,
          batch: 6,
          prefixWords: context.prefixWords,
          tailWords: 24,
          maxTokens: 8,
          seed,
        });
        context.say(`${shape.name}, seed ${seed}: ${result.hits} of ${result.reRequests} hits`);
        results.push({ shape: shape.name, seed, result });
      } finally {
        await stack.down();
      }
    }
  }
  return results;
}
