import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadTokenizer, TokenizerError } from './index.ts';
import {
  byteFallbackModel,
  unigramModel,
  wholePieceModel,
  withModel,
  wordPieceModel,
} from './models.testing.ts';

const hasCode = (code: string) => (error: unknown) =>
  error instanceof TokenizerError && error.code === code;

test('folders without a usable tokenizer are refused with a reason', async () => {
  await assert.rejects(loadTokenizer({ path: '/nowhere/at/all' }), hasCode('TOKENIZER_NOT_FOUND'));
  const broken = { 'tokenizer.json': '{"model":' };
  await withModel(broken, async (path) => {
    await assert.rejects(loadTokenizer({ path }), hasCode('TOKENIZER_INVALID'));
  });
  const unlike = { 'tokenizer.json': { model: { type: 'Oracle', vocab: 3 } } };
  await withModel(unlike, async (path) => {
    await assert.rejects(loadTokenizer({ path }), hasCode('TOKENIZER_INVALID'));
  });
});

test('kinds without a fast path are encoded by the library, say so, and decode', async () => {
  const kinds = [
    { model: byteFallbackModel(), text: 'hello world é 삼', begin: [1] },
    { model: wordPieceModel(), text: 'the game . played', begin: [] },
    { model: unigramModel(), text: 'the game the', begin: [] },
  ];
  for (const { model, text, begin } of kinds) {
    await withModel(model, async (path) => {
      const tokenizer = await loadTokenizer({ path });
      assert.equal(tokenizer.encoderKind, 'huggingface');
      assert.match(tokenizer.notes[0] ?? '', /slower library in a thread, because the /);
      const ids = await tokenizer.encode(text);
      const framed = await tokenizer.encode(text, { addSpecialTokens: true });
      assert.deepEqual([...framed], [...begin, ...ids]);
      assert.deepEqual(await tokenizer.encode(text), ids, 'from the cache');
      if (begin.length > 0) assert.equal(tokenizer.decode(framed), text);
      await tokenizer.close();
    });
  }
});

test('a byte-level kind that only the library encodes still decodes by bytes', async () => {
  const model = wholePieceModel();
  const json = { ...Object(model['tokenizer.json']), normalizer: { type: 'Lowercase' } };
  await withModel({ ...model, 'tokenizer.json': json }, async (path) => {
    const tokenizer = await loadTokenizer({ path });
    assert.match(tokenizer.notes[0] ?? '', /because the normalizer is Lowercase/);
    const ids = await tokenizer.encode('HELLO cat 삼<x>', { addSpecialTokens: true });
    assert.equal(ids[0], 261);
    assert.equal(tokenizer.decode(ids), 'hello cat 삼<x>');
    await tokenizer.close();
  });
});

test('special tokens of fallback kinds are parsed only on demand', async () => {
  await withModel(byteFallbackModel(), async (path) => {
    const tokenizer = await loadTokenizer({ path });
    assert.ok((await tokenizer.encode('</s>', { parseSpecial: true })).includes(2));
    assert.ok(!(await tokenizer.encode('</s>')).includes(2));
    assert.deepEqual(tokenizer.eosTokenIds, [2]);
    await tokenizer.close();
  });
});

test('special tokens of fast kinds are parsed only on demand, other added tokens always', async () => {
  await withModel(wholePieceModel(), async (path) => {
    const tokenizer = await loadTokenizer({ path });
    const text = 'hello cat<|end|><x>';
    const parsed = await tokenizer.encode(text, { parseSpecial: true, addSpecialTokens: true });
    assert.deepEqual([...parsed], [261, 259, 260, 262, 263]);
    const plain = await tokenizer.encode(text);
    assert.ok(!plain.includes(262) && plain.at(-1) === 263);
    assert.deepEqual(tokenizer.eosTokenIds, [262, 263]);
    assert.equal(tokenizer.decode(parsed), 'hello cat<x>');
    await tokenizer.close();
  });
});

test('long texts go through a thread and give the ids of the inline path', async () => {
  const [threaded, inline] = await Promise.all([loadTokenizer(), loadTokenizer({ threads: 0 })]);
  const words = Array.from({ length: 12_000 }, (_, i) => `word${i} the`).join(' ');
  const text = `<|im_start|>user\n${words}<|im_end|>${words}<|im_end|>\n`;
  for (const parseSpecial of [true, false]) {
    const answer = threaded.encode(text, { parseSpecial });
    assert.ok(answer instanceof Promise);
    assert.deepEqual(await answer, inline.encode(text, { parseSpecial }));
    assert.ok(threaded.encode(text, { parseSpecial }) instanceof Uint32Array, 'known by now');
  }
  await Promise.all([threaded.close(), inline.close()]);
});

test('a text with very many special tokens goes through a thread as a whole', async () => {
  const [threaded, inline] = await Promise.all([loadTokenizer(), loadTokenizer({ threads: 0 })]);
  const text = '<|im_end|>x'.repeat(12_000);
  const flags = { parseSpecial: true, addSpecialTokens: true };
  const answer = threaded.encode(text, flags);
  assert.ok(answer instanceof Promise);
  assert.deepEqual(await answer, inline.encode(text, flags));
  await Promise.all([threaded.close(), inline.close()]);
});

test('short texts are encoded at once; the caller owns the ids', async () => {
  const tokenizer = await loadTokenizer();
  const text = 'A sentence that is long enough to be remembered by the cache of segments.';
  const first = tokenizer.encode(text);
  assert.ok(first instanceof Uint32Array);
  const wanted = first.slice();
  first.fill(0);
  assert.deepEqual(tokenizer.encode(text), wanted);
  await tokenizer.close();
});

test('aborting, closing and too many waiting texts end in their own error', async () => {
  const tokenizer = await loadTokenizer({ threads: 1 });
  const long = (seed: number): string => `${seed} `.repeat(20_000);
  const controller = new AbortController();
  const aborted = tokenizer.encode(long(1), { signal: controller.signal });
  controller.abort();
  await assert.rejects(Promise.resolve(aborted), hasCode('TOKENIZER_ABORTED'));
  assert.throws(
    () => tokenizer.encode('x', { signal: controller.signal }),
    hasCode('TOKENIZER_ABORTED'),
  );

  const many = Array.from({ length: 80 }, async (_, i) => await tokenizer.encode(long(i + 10)));
  const settled = await Promise.allSettled(many);
  const refused = settled.filter((result) => result.status === 'rejected');
  assert.ok(refused.length > 0 && refused.length < 40, `${refused.length} refused`);
  assert.ok(refused.every((result) => hasCode('TOKENIZER_BUSY')(result.reason)));

  const last = Promise.resolve(tokenizer.encode(long(2)));
  const failure = assert.rejects(last, hasCode('TOKENIZER_CLOSED'));
  await tokenizer.close();
  await failure;
  assert.throws(() => tokenizer.encode('x'), hasCode('TOKENIZER_CLOSED'));
});

test('the own tokenizer is sensible for English', async () => {
  const tokenizer = await loadTokenizer();
  const text =
    'Please explain how a small boat can sail against the wind, and give two examples that a child would understand. ' +
    'Start with what pushes the boat forward, and finish with a short list of things to remember.';
  const ids = await tokenizer.encode(text);
  assert.ok(text.length / ids.length >= 3, `${text.length / ids.length} characters a token`);
  assert.deepEqual([tokenizer.vocabularySize, tokenizer.encoderKind], [4096, 'fast']);
  assert.equal(tokenizer.eosTokenIds.length, 1);
  await tokenizer.close();
});
