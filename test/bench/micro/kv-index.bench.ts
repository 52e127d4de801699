/** The prefix index at 1 million blocks in sequences of 100. `node test/bench/micro/kv-index.bench.ts` */
import { createRng } from '@busbar/base';
import { createKvIndex, type KvIndex } from '@busbar/kv-index';
import { repeat, report, timeMs } from './measure.ts';

const BLOCKS = 1_000_000;
const SEQUENCE_BLOCKS = 100;
const SEQUENCES = BLOCKS / SEQUENCE_BLOCKS;
const HOT_PROMPTS = 400;
const MATCHES = 20_000;
const REPETITIONS = 7;

const rng = createRng(2026);

function randomSequences(count: number): Uint32Array[] {
  return repeat(count, () => 0).map(() =>
    Uint32Array.from({ length: SEQUENCE_BLOCKS * 2 }, () => rng.u32()),
  );
}

function fill(index: KvIndex, sequences: readonly Uint32Array[], owners: number): void {
  for (const [i, sequence] of sequences.entries()) index.store(i % owners, sequence);
}

/** Microseconds for the match of one 100-block prompt, drawn from `prompts`. */
function matchUs(index: KvIndex, prompts: readonly Uint32Array[], owners: number): number {
  const overlaps = new Uint32Array(owners);
  const drawn = repeat(MATCHES, () => rng.int(prompts.length));
  const ms = timeMs(() => {
    for (const i of drawn) index.match(prompts[i]!, overlaps);
  });
  return (ms * 1e3) / MATCHES;
}

function measure(owners: number, sequences: readonly Uint32Array[]): void {
  const at = `at ${owners} owners`;
  let index = createKvIndex({ initialOwners: owners });
  const storeMs = repeat(REPETITIONS, () => {
    index = createKvIndex({ initialOwners: owners });
    return timeMs(() => fill(index, sequences, owners));
  });
  report(
    `store ${at}`,
    'ns/block',
    storeMs.map((ms) => (ms * 1e6) / BLOCKS),
  );
  report(
    `store ${at}`,
    'Mblocks/s',
    storeMs.map((ms) => BLOCKS / ms / 1e3),
  );
  report(`memory ${at}`, 'bytes/block', [index.bytes / BLOCKS]);

  const hot = sequences.filter((_, i) => i % Math.floor(SEQUENCES / HOT_PROMPTS) === 0);
  const missing = randomSequences(HOT_PROMPTS);
  report(
    `match hot ${at}`,
    'us',
    repeat(REPETITIONS, () => matchUs(index, hot, owners)),
  );
  report(
    `match any ${at}`,
    'us',
    repeat(REPETITIONS, () => matchUs(index, sequences, owners)),
  );
  report(
    `match none ${at}`,
    'us',
    repeat(REPETITIONS, () => matchUs(index, missing, owners)),
  );

  // A prefix that all hold: the widest set of owners stays alive to the end.
  const shared = randomSequences(1);
  for (let owner = 0; owner < owners; owner++) index.store(owner, shared[0]!);
  report(
    `match shared ${at}`,
    'us',
    repeat(REPETITIONS, () => matchUs(index, shared, owners)),
  );

  const churn = randomSequences(SEQUENCES / 10);
  const churnMs = repeat(REPETITIONS, () =>
    timeMs(() => {
      fill(index, churn, owners);
      for (const [i, sequence] of churn.entries()) index.remove(i % owners, sequence);
    }),
  );
  report(
    `churn ${at}`,
    'ns/operation',
    churnMs.map((ms) => (ms * 1e6) / (BLOCKS / 5)),
  );

  const dumps: Uint32Array[] = [];
  report(
    `dump ${at}`,
    'ms',
    repeat(REPETITIONS, () => timeMs(() => void dumps.push(index.dump(0)))),
  );
  const clearMs = repeat(REPETITIONS, (i) => {
    const ms = timeMs(() => index.clear(0));
    index.store(0, dumps[i]!);
    return ms;
  });
  report(`clear ${at}`, 'ms', clearMs);
}

/** The longest single call while the index grows: one call must not hold up an event loop. */
function measureLongestStore(sequences: readonly Uint32Array[]): void {
  const longestMs = repeat(REPETITIONS, () => {
    const index = createKvIndex({ initialOwners: 8 });
    return Math.max(...sequences.map((sequence, i) => timeMs(() => index.store(i % 8, sequence))));
  });
  report('longest store at 8 owners', 'ms', longestMs);
}

const sequences = randomSequences(SEQUENCES);
for (const owners of [8, 64, 256]) measure(owners, sequences);
measureLongestStore(sequences);
