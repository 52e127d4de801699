/** Hashing prompts into blocks of 16 tokens. `node test/bench/micro/blocks.bench.ts` */
import { createRng } from '@busbar/base';
import { BlockHasher, hashBlocks, hashSeed, xxh3 } from '@busbar/blocks';
import { repeat, report, timeMs } from './measure.ts';

const BLOCK_SIZE = 16;
const BLOCKS_PER_RUN = 100_000;
const REPETITIONS = 15;
const WARM_UPS = 3;

const rng = createRng(2026);

function randomTokens(count: number): Uint32Array {
  return Uint32Array.from({ length: count }, () => rng.int(151_936));
}

/** Nanoseconds a block, over prompts of `blocks` blocks. */
function measure(name: string, blocks: number, hash: (tokens: Uint32Array) => void): void {
  const tokens = randomTokens(blocks * BLOCK_SIZE);
  const calls = Math.ceil(BLOCKS_PER_RUN / blocks);
  const runNs = (): number => {
    const ms = timeMs(() => {
      for (let call = 0; call < calls; call++) hash(tokens);
    });
    return (ms * 1e6) / (calls * blocks);
  };
  repeat(WARM_UPS, runNs);
  report(name, 'ns/block', repeat(REPETITIONS, runNs));
}

const seed = hashSeed({ lora: 'support-v2' });
const hasher = new BlockHasher(BLOCK_SIZE, seed);
measure('hash prompt of 10 blocks', 10, (tokens) => hasher.hash(tokens));
measure('hash prompt of 100 blocks', 100, (tokens) => hasher.hash(tokens));
measure('hash prompt of 2000 blocks', 2000, (tokens) => hasher.hash(tokens));
measure('hash prompt of 100 blocks, seed used once', 100, (tokens) => {
  hashBlocks(tokens, BLOCK_SIZE, seed);
});

const bytes = new Uint8Array(randomTokens(BLOCK_SIZE).buffer);
measure('xxh3 of 64 bytes, general path', 1, () => xxh3(bytes, seed));
