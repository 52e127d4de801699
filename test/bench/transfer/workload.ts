import { createRng } from '@busbar/base';
import { type ChatSample, chat, createAgent, quantile } from '../chat-client.ts';
import { words } from '../words.ts';
import type { Decision, NetStack } from './net-stack.ts';

/** Longer than four transfers of the longest prompt over a link of a third of the rate. */
const REQUEST_MS = 90_000;
const agent = createAgent();
let nextSeed = 1;

export interface Load {
  /** Of the built-in tokenizer a twentieth fewer than tokens. */
  words: number;
  inFlight: number;
  rounds: number;
  maxTokens: number;
}

/** What one load did; figures of times are medians of the rounds where they do not say otherwise. */
export interface LoadResult extends Load {
  promptTokens: number;
  ttftMs: number;
  /** Smallest and largest. */
  ttftRangeMs: [number, number];
  splits: number;
  requests: number;
  /** Transfers as the decode worker saw them, from asking to the last block; absent when there were none. */
  transfer?: {
    bytesEach: number;
    /** Mean of each round. */
    msByRound: number[];
    /** Over the time in which at least one ran. */
    linkBytesPerMs: number;
    /** What the records of decisions said: mean of each round, and its largest. */
    predictedMsByRound: number[];
    predictedMaxMsByRound: number[];
  };
  /** Both totals of the newest decision, and its reason. */
  decision: Decision['split'];
}

/** A streamed answer to a prompt that no cache holds. Throws when it does not end as it must. */
export async function ask(stack: NetStack, count: number, maxTokens: number): Promise<ChatSample> {
  const sample = await chat({
    url: stack.url,
    model: 'bench',
    content: words(createRng(nextSeed++), count),
    maxTokens,
    ignoreEos: true,
    includeUsage: true,
    agent,
    timeoutMs: REQUEST_MS,
  });
  if (sample.error !== undefined) throw new Error(sample.error);
  return sample;
}

/** Short requests until no process is cold. */
export async function warmUp(stack: NetStack): Promise<void> {
  for (let i = 0; i < 6; i++) await ask(stack, 80, 8);
}

export async function runLoad(stack: NetStack, load: Load): Promise<LoadResult> {
  const samples: ChatSample[] = [];
  const rounds: Round[] = [];
  for (let i = 0; i < load.rounds; i++) {
    const before = await readCounts(stack);
    const inFlight = Array.from({ length: load.inFlight }, () =>
      ask(stack, load.words, load.maxTokens),
    );
    samples.push(...(await Promise.all(inFlight)));
    rounds.push(await readRound(stack, before, load.inFlight));
  }
  const ttfts = samples.map(({ ttftMs }) => ttftMs);
  const result: LoadResult = {
    ...load,
    promptTokens: samples[0]?.promptTokens ?? 0,
    ttftMs: quantile(ttfts, 0.5),
    ttftRangeMs: [Math.min(...ttfts), Math.max(...ttfts)],
    splits: rounds.reduce((sum, { fetches }) => sum + fetches, 0),
    requests: samples.length,
    decision: rounds.at(-1)?.decisions[0]?.split,
  };
  const moved = rounds.filter(({ fetches }) => fetches > 0);
  if (moved.length > 0) result.transfer = summarize(moved);
  return result;
}

interface Counts {
  fetches: number;
  seconds: number;
  bytes: number;
  busyMs: number;
}

interface Round extends Counts {
  decisions: Decision[];
}

async function readCounts(stack: NetStack): Promise<Counts> {
  const link = await stack.link();
  return {
    fetches: await stack.metric('decode', 'busbar_decode_kv_fetch_seconds_count'),
    seconds: await stack.metric('decode', 'busbar_decode_kv_fetch_seconds_sum'),
    bytes: await stack.metric('decode', 'busbar_decode_kv_fetch_bytes_total'),
    busyMs: link.busyMsTotal,
  };
}

async function readRound(stack: NetStack, before: Counts, requests: number): Promise<Round> {
  const after = await readCounts(stack);
  return {
    fetches: after.fetches - before.fetches,
    seconds: after.seconds - before.seconds,
    bytes: after.bytes - before.bytes,
    busyMs: after.busyMs - before.busyMs,
    decisions: (await stack.decisions()).slice(0, requests),
  };
}

function summarize(rounds: readonly Round[]): NonNullable<LoadResult['transfer']> {
  const sum = (read: (round: Round) => number): number =>
    rounds.reduce((total, round) => total + read(round), 0);
  const predicted = rounds.map(({ decisions }) =>
    decisions.map(({ split }) => split?.pair?.terms['transferMs'] ?? 0),
  );
  return {
    bytesEach: sum(({ bytes }) => bytes) / sum(({ fetches }) => fetches),
    msByRound: rounds.map(({ seconds, fetches }) => (seconds * 1_000) / fetches),
    linkBytesPerMs: sum(({ bytes }) => bytes) / sum(({ busyMs }) => busyMs),
    predictedMsByRound: predicted.map((each) => each.reduce((a, b) => a + b, 0) / each.length),
    predictedMaxMsByRound: predicted.map((each) => Math.max(...each)),
  };
}
