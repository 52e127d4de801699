import { equalWorkers, type WorkloadDefinition } from '../workload.ts';
import { mooncake } from './mooncake.ts';
import { multiTurn } from './multi-turn.ts';
import { closedSharedPrefix, openSharedPrefix } from './shared-prefix.ts';
import { unique } from './unique.ts';

const TWO_EQUAL = equalWorkers(2, 926);
const TWO_CACHES = [
  { kvBlocks: 926, speed: 1 },
  { kvBlocks: 1693, speed: 1 },
];

const PREFIX_SHAPES = [
  { suffix: '12', prefixes: 12, workers: TWO_EQUAL, caches: '926 and 926 blocks' },
  { suffix: '18', prefixes: 18, workers: TWO_EQUAL, caches: '926 and 926 blocks' },
  { suffix: '24', prefixes: 24, workers: TWO_CACHES, caches: '926 and 1,693 blocks' },
  { suffix: '24-tight', prefixes: 24, workers: TWO_EQUAL, caches: '926 and 926: more than fits' },
];

const closed = PREFIX_SHAPES.map(({ suffix, prefixes, workers, caches }) =>
  closedSharedPrefix({
    name: `closed-${suffix}`,
    title: `${prefixes} prefixes in batches of six, ${caches}`,
    prefixes,
    workers,
  }),
);

const open = PREFIX_SHAPES.map(({ suffix, prefixes, workers, caches }) =>
  openSharedPrefix({
    name: `open-${suffix}`,
    title: `${prefixes} prefixes at random times, ${caches}`,
    prefixes,
    workers,
    ratePerSec: 10,
    durationMs: 30_000,
    maxTokens: 32,
  }),
);

/** What one worker of profile `seed-8gb` and 926 blocks completes of the hot prefix when it never idles. */
const HOT_CAPACITY_PER_SEC = 68;

const hotPrefix = openSharedPrefix({
  name: 'hot-prefix',
  title: 'one prefix, asked 1.5 times as often as one worker can answer',
  prefixes: 1,
  workers: TWO_EQUAL,
  ratePerSec: (1.5 * HOT_CAPACITY_PER_SEC) / TWO_EQUAL.length,
  durationMs: 20_000,
  maxTokens: 64,
});

const unlike = [
  [1, 0.5],
  [2, 1, 1, 0.5],
].map((speeds) =>
  openSharedPrefix({
    name: `unlike-${speeds.length}`,
    title: `18 prefixes at random times, workers of speed ${speeds.join(', ')}`,
    prefixes: 18,
    workers: speeds.map((speed) => ({ kvBlocks: 926, speed })),
    ratePerSec: 8,
    durationMs: 30_000,
    maxTokens: 32,
  }),
);

/** Every built-in workload, in the order of the tables. */
export const WORKLOADS: readonly WorkloadDefinition[] = [
  ...closed,
  ...open,
  hotPrefix,
  unique,
  multiTurn,
  mooncake,
  ...unlike,
];
