import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRng } from '@busbar/base';
import { buildFastModel } from '../fast/build-fast-model.ts';
import { FastEncoder } from '../fast/fast-encoder.ts';
import type { FastModel } from '../fast/fast-model.ts';
import { randomText } from '../fast/self-check.ts';
import { HfEncoder } from '../huggingface/hf-encoder.ts';
import { IdBuffer } from '../id-buffer.ts';
import { loadTokenizer } from '../load-tokenizer.ts';
import {
  NO_OTHER_MODEL,
  OTHER_MODEL,
  OWN_MODEL,
  wholePieceModel,
  withModel,
} from '../models.testing.ts';
import { readModelFiles } from '../thread/model-files.ts';
import { headsFault, randomProse, randomSibling } from './heads-fault.ts';
import { SegmentEncoder } from './segment-encoder.ts';

async function fastModelOf(folder: string): Promise<{ model: FastModel; hf: HfEncoder }> {
  const { json, config } = await readModelFiles(folder);
  const hf = new HfEncoder(json, config);
  const built = buildFastModel(json, config, hf, new Set());
  assert.ok(built.model);
  return { model: built.model, hf };
}

const rngOfWords = createRng(9);

function plainWords(count: number): string {
  const word = (): string => rngOfWords.u32().toString(36).replaceAll(/\d/g, '');
  return Array.from({ length: count }, word).join(' ');
}

/** Random texts with common beginnings, each against Hugging Face's ids for the whole text. */
async function compareHeads(folder: string, heads: number): Promise<void> {
  const { model, hf } = await fastModelOf(folder);
  assert.equal(headsFault(model), undefined);
  const rng = createRng(4);
  const out = new IdBuffer();
  let known = 0;
  for (let i = 0; i < heads; i++) {
    // Room for some texts, so that heads also leave.
    const options = { maxBytes: 60_000, knowsHeads: true };
    const segments = new SegmentEncoder(new FastEncoder(model), options);
    const head =
      randomProse(rng, 70 + rng.int(100)) + (rng.int(4) === 0 ? randomText(rng, []) : '');
    let text = head;
    for (let k = 0; k < 12; k++) {
      const found = segments.lookUp(text);
      if (!(found instanceof Uint32Array) && found.head !== undefined) known++;
      segments.encodeInto(text, out);
      const ids = out.take();
      const whole = hf.encode(text, { addSpecialTokens: false, parseSpecial: false });
      assert.deepEqual([...ids], [...whole], JSON.stringify(text));
      // A sibling of the head, or of the text before it.
      text = randomSibling(rng, rng.int(3) === 0 ? text.slice(0, 3000) : head);
    }
  }
  assert.ok(known > heads * 5, `${known} of ${heads * 12} texts began like another`);
}

test('own model: a known head and its rest give the ids of the whole', async () => {
  await compareHeads(OWN_MODEL, 150);
});

test('a model that takes whole pieces first: a known head and its rest give the ids of the whole', async () => {
  await withModel(wholePieceModel(), async (folder) => await compareHeads(folder, 100));
});

test('another model: a known head and its rest', { skip: NO_OTHER_MODEL }, async () => {
  await compareHeads(OTHER_MODEL!, 400);
});

test('a pattern that waits for something behind many words is found out', async () => {
  const { model } = await fastModelOf(OWN_MODEL);
  const faultOf = (pattern: RegExp): string | undefined =>
    headsFault({ ...model, splitSteps: [{ pattern, gaps: 'pieces' }] });
  assert.match(faultOf(/[^\n]+\n|\w+|\s/gu) ?? '', /looks further/);
  // A word is spelled when a mark stands nine words behind it. No item reaches far: this is for the random texts to find.
  const spelled = ` ?[a-z](?=[a-z]*${' [a-z]+'.repeat(9)}[\\n"7)])`;
  const line = new RegExp(`${spelled}| ?[a-z]+|\\s|[^\\sa-z]+`, 'gu');
  assert.match(faultOf(line) ?? '', /a cut text has other ids/);
});

test('a model whose patterns look ahead uses no heads, and says so', async () => {
  const { json } = await readModelFiles(OWN_MODEL);
  const pattern = { Regex: '[^\\n]+\\n|\\p{L}+|[^\\n]' };
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, use_regex: false };
  const pretokenizers = [
    { type: 'Split', pattern, behavior: 'Isolated', invert: false },
    { ...byteLevel, trim_offsets: false },
  ];
  const lines = { ...json, pre_tokenizer: { type: 'Sequence', pretokenizers } };
  await withModel({ 'tokenizer.json': lines }, async (folder) => {
    const { hf } = await fastModelOf(folder);
    const tokenizer = await loadTokenizer({ path: folder, threads: 0 });
    assert.equal(tokenizer.encoderKind, 'fast');
    assert.match(tokenizer.notes.join(), /beginnings of texts are encoded again/);
    const line = plainWords(200);
    for (const text of [line, `${line} and so on`, `${line} and so on\n`]) {
      const whole = hf.encode(text, { addSpecialTokens: false, parseSpecial: false });
      assert.deepEqual([...(await tokenizer.encode(text))], [...whole]);
    }
    await tokenizer.close();
  });
});

test('texts that go on behind a known head stay inline; their beginnings come from threads as well', async () => {
  const tokenizer = await loadTokenizer({ threads: 1 });
  const whole = await loadTokenizer({ threads: 0 });
  const document = plainWords(20_000);
  assert.ok(tokenizer.encode(document) instanceof Promise);
  await tokenizer.encode(document);
  for (const question of [
    'What is this?',
    '\n\nWhy? 삼겹살 e\u0301',
    randomProse(createRng(3), 900),
  ]) {
    const text = `${document} ${question}`;
    const ids = tokenizer.encode(text);
    assert.ok(ids instanceof Uint32Array, 'encoded inline');
    assert.deepEqual(ids, await whole.encode(text));
  }
  const longer = `${document.slice(0, 90_000)} ${plainWords(9000)}`;
  const ids = tokenizer.encode(longer);
  assert.ok(ids instanceof Promise);
  assert.deepEqual(await ids, await whole.encode(longer));
  assert.ok(tokenizer.encode(`${longer} more`) instanceof Uint32Array);
  await Promise.all([tokenizer.close(), whole.close()]);
});

test('one text has cuts looked for in so many bytes, and more for the next text', async () => {
  const { model } = await fastModelOf(OWN_MODEL);
  const cut: number[] = [];
  class Spied extends FastEncoder {
    override encodeWithCuts(text: string, out: IdBuffer): Uint32Array {
      cut.push(text.length);
      return super.encodeWithCuts(text, out);
    }
  }
  const options = { maxBytes: 1024 * 1024, knowsHeads: true, cutBytes: 1500 };
  const segments = new SegmentEncoder(new Spied(model), options);
  const out = new IdBuffer();
  const texts = ['one', 'two', 'three'].map((word) => `${word} `.repeat(400).slice(0, 1000));
  for (const text of texts) segments.encodeInto(text, out);
  segments.beginText();
  const heads = texts.map((text) => {
    const found = segments.lookUp(`${text}!`);
    return found instanceof Uint32Array ? undefined : found.head;
  });
  assert.deepEqual(cut, [1000]);
  assert.deepEqual(
    heads.map((head) => head !== undefined),
    [true, false, false],
  );
  segments.beginText();
  assert.ok(!(segments.lookUp(`${texts[1]}!`) instanceof Uint32Array));
  assert.deepEqual(cut, [1000, 1000]);
});
