import { messageOf } from '@busbar/base';
import type { ModelCard } from '@busbar/protocol';
import { CliError } from '../errors.ts';
import { count } from '../terminal/terminal.ts';

/** About 1,500 tokens of usual tokenizers. */
const WORDS_MAX = 1_100;
/** Tokens that a word may take in the worst of tokenizers, with room for the template and the answer. */
const TOKENS_PER_WORD = 8;
/** The last token of a prompt is always computed, so that a prompt that ends with a block has one less in the cache. */
const WANTED_BLOCKS = 2;
/** Halving from the most words to none takes eleven; each costs one short prompt. */
const TRIES = 12;
/** Where no card tells. */
const CONTEXT_TOKENS = 8_192;
const BLOCK_SIZE = 16;

/** One prompt and its answer. */
export interface Asked {
  content: string;
  promptTokens: number;
  cachedTokens: number;
  ttftMs: number;
}

/**
 * Sends prompts, each of its own, until one fits into the context and fills two blocks of the cache, or one where two do not fit. How many
 * tokens a word and the template take is only known to the frontend. `tooLong` when not even one block can be filled; rejects as `ask`.
 */
export async function fitProbe(
  ask: (content: string) => Promise<Asked>,
  card: Pick<ModelCard, 'contextTokens' | 'blockSize'> | undefined,
): Promise<Asked | { tooLong: string }> {
  const { contextTokens, blockSize } = card ?? {
    contextTokens: CONTEXT_TOKENS,
    blockSize: BLOCK_SIZE,
  };
  let words = Math.max(1, Math.min(WORDS_MAX, Math.floor(contextTokens / TOKENS_PER_WORD)));
  let fitting: { words: number; asked: Asked } | undefined;
  let tooMany = WORDS_MAX + 1;
  let refusal = '';
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const answer = await askIfFits(ask, words);
    if ('tooLong' in answer) {
      refusal = answer.tooLong;
      tooMany = words;
    } else {
      fitting = { words, asked: answer };
      if (answer.promptTokens > WANTED_BLOCKS * blockSize) break;
    }
    const least = fitting === undefined ? 0 : fitting.words + 1;
    if (least >= tooMany) break;
    words = Math.min(Math.floor((least + tooMany) / 2), Math.max(1, 2 * words));
  }
  if (fitting === undefined) return { tooLong: refusal };
  const { promptTokens } = fitting.asked;
  if (promptTokens > blockSize) return fitting.asked;
  return {
    tooLong: `no block of ${count(blockSize)} tokens is filled by the longest prompt that fits, of ${count(promptTokens)}`,
  };
}

async function askIfFits(
  ask: (content: string) => Promise<Asked>,
  words: number,
): Promise<Asked | { tooLong: string }> {
  try {
    return await ask(probeText(crypto.randomUUID().slice(0, 8), words));
  } catch (error) {
    if (error instanceof CliError && error.code === 'CLI_CONTEXT') {
      return { tooLong: messageOf(error) };
    }
    throw error;
  }
}

/** Begins with what no other prompt begins with. */
function probeText(unique: string, words: number): string {
  const all = ['the', 'river', 'turns', 'under', 'a', 'stone', 'bridge', 'and', 'goes', 'on'];
  return [unique, ...Array.from({ length: words }, (_, at) => all[at % all.length])].join(' ');
}
