import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRng } from '@busbar/base';
import { HfEncoder } from '../huggingface/hf-encoder.ts';
import { loadTokenizer } from '../load-tokenizer.ts';
import {
  NO_OTHER_MODEL,
  OTHER_MODEL,
  OWN_MODEL,
  wholePieceModel,
  withModel,
} from '../models.testing.ts';
import type { Tokenizer } from '../port.ts';
import { readModelFiles } from '../thread/model-files.ts';
import { randomText } from './self-check.ts';

const FLAGS = [
  { parseSpecial: true, addSpecialTokens: true },
  { parseSpecial: false, addSpecialTokens: false },
] as const;

/** Texts that took time or gave other ids somewhere: every one is long enough for the heap, none goes to a thread. */
const LONG_TEXTS = [
  'a'.repeat(3000),
  'ab'.repeat(1500),
  ' '.repeat(3000),
  `${' '.repeat(3000)}x`,
  ' \n'.repeat(1500),
  '!'.repeat(3000),
  "'".repeat(3000),
  '0123456789'.repeat(300),
  '汉字没有空格'.repeat(300),
  '👩‍👩‍👧'.repeat(300),
  'e\u0301'.repeat(1500),
  '\u0301'.repeat(2000),
  '\0'.repeat(2000),
  '\ud800'.repeat(1000),
  `lone \ud800 and \udc00, reversed \udc00\ud800, at the end \ud83d`,
];

async function compareAll(folder: string, texts: number): Promise<void> {
  const files = await readModelFiles(folder);
  const truth = new HfEncoder(files.json, files.config);
  const tokenizer = await loadTokenizer({ path: folder, threads: 0 });
  try {
    assert.deepEqual([tokenizer.encoderKind, tokenizer.notes], ['fast', []]);
    const contents = files.json.added_tokens.map((token) => token.content);
    const rng = createRng(1);
    for (const text of LONG_TEXTS) await compare(tokenizer, truth, text);
    for (let i = 0; i < texts; i++) await compare(tokenizer, truth, randomText(rng, contents));
    for (let i = 0; i < texts / 10; i++) {
      const parts = Array.from({ length: 20 }, () => randomText(rng, contents));
      await compare(tokenizer, truth, parts.join(' '));
    }
  } finally {
    await tokenizer.close();
  }
}

async function compare(tokenizer: Tokenizer, truth: HfEncoder, text: string): Promise<void> {
  for (const flags of FLAGS) {
    const ids = await tokenizer.encode(text, flags);
    const wanted = truth.encode(text.toWellFormed(), flags);
    assert.deepEqual([...ids], [...wanted], JSON.stringify(text.slice(0, 200)));
  }
}

test("own model: all ids equal Hugging Face's", async () => {
  await compareAll(OWN_MODEL, 1500);
});

test("a model that takes whole pieces first: all ids equal Hugging Face's", async () => {
  await withModel(wholePieceModel(), async (folder) => await compareAll(folder, 500));
});

test("another model: all ids equal Hugging Face's", { skip: NO_OTHER_MODEL }, async () => {
  await compareAll(OTHER_MODEL!, 5000);
});
