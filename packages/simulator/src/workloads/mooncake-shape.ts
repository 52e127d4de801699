import { createRng, type Rng } from '@busbar/base';
import { MOONCAKE_BLOCK_TOKENS, type MooncakeRecord } from './mooncake-trace.ts';
import { between, exponentialMs } from './text.ts';

/** Means that the published conversation trace has, and that `mooncakeShape` aims at. */
const MEAN_FIRST_INPUT = 8_500;
const MEAN_ADDED_INPUT = 4_000;
const MEAN_OUTPUT = 343;
/** Spread of the logarithm of lengths: a long tail, as in the trace. */
const SPREAD = 0.9;
const MEAN_TURNS = 2.2;
const SHARED_BLOCKS = 2;

interface ShapeOptions {
  seed: number;
  conversationsPerSec: number;
  durationMs: number;
  /** Mean time between an arrival and the next turn of its conversation. */
  turnMs: number;
}

interface Conversation {
  atMs: number;
  turns: number;
  tokens: number;
  ids: number[];
}

/**
 * A trace of the shape of Mooncake's conversations of a few turns, each turn the whole past and more, all behind one short
 * common system prompt; lengths with a long tail (about 12,000 tokens in, 343 out); some 40 % of all blocks come again.
 */
export function mooncakeShape(options: ShapeOptions): MooncakeRecord[] {
  const rng = createRng(options.seed);
  const shared = Array.from({ length: SHARED_BLOCKS }, (_, i) => i);
  let nextId = SHARED_BLOCKS;
  const records: MooncakeRecord[] = [];
  const meanMs = 1000 / options.conversationsPerSec;
  for (
    let atMs = exponentialMs(rng, meanMs);
    atMs < options.durationMs;
    atMs += exponentialMs(rng, meanMs)
  ) {
    const conversation: Conversation = { atMs, turns: turnsOf(rng), tokens: 0, ids: [...shared] };
    for (
      let turn = 0;
      turn < conversation.turns && conversation.atMs < options.durationMs;
      turn++
    ) {
      conversation.tokens += logNormal(rng, turn === 0 ? MEAN_FIRST_INPUT : MEAN_ADDED_INPUT);
      // The last block was not full; with more text in it, it is another block.
      const full = Math.floor(conversation.tokens / MOONCAKE_BLOCK_TOKENS);
      while (conversation.ids.length < full) conversation.ids.push(nextId++);
      records.push({
        timestamp: Math.round(conversation.atMs),
        input_length: conversation.tokens,
        output_length: logNormal(rng, MEAN_OUTPUT),
        hash_ids: [...conversation.ids.slice(0, full), nextId++],
      });
      conversation.atMs += exponentialMs(rng, options.turnMs);
    }
  }
  return records.toSorted((a, b) => a.timestamp - b.timestamp);
}

/** One to several turns with a geometric tail. */
function turnsOf(rng: Rng): number {
  let turns = 1;
  while (turns < 12 && rng.next() > 1 / MEAN_TURNS) turns++;
  return turns;
}

/** A whole number of tokens with a log-normal spread around this mean, at least 16. */
function logNormal(rng: Rng, mean: number): number {
  let normal = -6;
  for (let i = 0; i < 12; i++) normal += rng.next();
  const value = mean * Math.exp(SPREAD * normal - (SPREAD * SPREAD) / 2);
  return Math.max(between(rng, 16, 64), Math.round(value));
}
