import { createRng } from '@busbar/base';
import { equalWorkers, openLoop, totalSpeed, type WorkloadDefinition } from '../workload.ts';
import {
  between,
  concat,
  exponentialMs,
  randomTokens,
  TEMPLATE_HEAD,
  TEMPLATE_TAIL,
} from './text.ts';

/** About 70 % of what a worker of profile `seed-8gb` and 926 blocks completes. */
const RATE_PER_SEC = 5.5;
const DURATION_MS = 30_000;

/** No prompt comes twice: only load matters. Lengths and answers differ widely, so that counting requests is not enough. */
export const unique: WorkloadDefinition = {
  name: 'unique',
  title: 'no prompt comes twice; 100 to 2,000 tokens in, 16 to 120 out',
  workers: equalWorkers(2, 926),
  create: ({ seed, workers, durationMs = DURATION_MS }) => {
    const meanMs = 1000 / (RATE_PER_SEC * totalSpeed(workers));
    return openLoop(function* () {
      const rng = createRng(seed);
      let tag = 0;
      for (
        let atMs = exponentialMs(rng, meanMs);
        atMs < durationMs;
        atMs += exponentialMs(rng, meanMs)
      ) {
        const text = randomTokens(rng, between(rng, 100, 2000));
        const request = {
          tokens: concat(TEMPLATE_HEAD, text, TEMPLATE_TAIL),
          maxTokens: between(rng, 16, 120),
          ignoreEos: true,
          seed: rng.u32(),
          isRepeat: false,
          tag: tag++,
        };
        yield { atMs, request };
      }
    });
  },
};
