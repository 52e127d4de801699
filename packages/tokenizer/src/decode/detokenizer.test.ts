import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { loadTokenizer, type Tokenizer } from '../index.ts';
import { byteFallbackModel, withModel } from '../models.testing.ts';

let tokenizer: Tokenizer;
before(async () => {
  tokenizer = await loadTokenizer({ threads: 0 });
});
after(async () => await tokenizer.close());

/** The own tokenizer's ids 0 to 255 are the bytes, so that any cut through a text can be made. */
const byteTokens = (text: string): Uint32Array => Uint32Array.from(Buffer.from(text));

function pushInParts(tokens: Uint32Array, cuts: readonly number[]): string[] {
  const detokenizer = tokenizer.createDetokenizer();
  const ends = [...cuts.filter((cut) => cut <= tokens.length), tokens.length].toSorted(
    (a, b) => a - b,
  );
  let start = 0;
  const deltas = ends.map((end) => {
    const delta = detokenizer.push(tokens.subarray(start, end));
    start = end;
    return delta;
  });
  return [...deltas, detokenizer.flush()];
}

test('no character is cut, at whatever byte the tokens are divided', () => {
  const text = '삼겹살 👩‍👩‍👧 é';
  const tokens = byteTokens(text);
  for (let cut = 0; cut <= tokens.length; cut++) {
    const deltas = pushInParts(tokens, [cut]);
    assert.equal(deltas.join(''), text);
    for (const delta of deltas) assert.ok(!delta.includes('\ufffd') && delta.isWellFormed());
  }
  const single = pushInParts(
    tokens,
    Array.from({ length: tokens.length }, (_, i) => i),
  );
  assert.equal(single.join(''), text);
});

test('a character that never ends comes out as U+FFFD, once, at the end', () => {
  const tokens = byteTokens('ok 👍').subarray(0, -1);
  const detokenizer = tokenizer.createDetokenizer();
  assert.equal(detokenizer.push(tokens), 'ok ');
  assert.equal(detokenizer.flush(), '\ufffd');
  assert.equal(detokenizer.flush(), '');
  assert.equal(tokenizer.decode(tokens), 'ok \ufffd');
});

test('deltas together equal the whole decode and what the platform makes of the bytes', () => {
  const tokens = fc.uint32Array({ max: 4092, maxLength: 40 });
  fc.assert(
    fc.property(
      fc.oneof(tokens, fc.uint32Array({ max: 255, maxLength: 30 })),
      fc.array(fc.nat(40), { maxLength: 6 }),
      (list, cuts) => {
        const ids = Uint32Array.from(list);
        const whole = tokenizer.decode(ids);
        assert.equal(pushInParts(ids, cuts).join(''), whole);
        if (ids.every((id) => id < 256)) {
          const platform = new TextDecoder('utf-8', { ignoreBOM: true });
          assert.equal(whole, platform.decode(Uint8Array.from(ids)));
        }
      },
    ),
    { numRuns: 1000 },
  );
});

test('any text survives encoding and decoding', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      const ids = tokenizer.encode(text);
      assert.ok(ids instanceof Uint32Array);
      assert.equal(tokenizer.decode(ids), text.toWellFormed().normalize('NFC'));
    }),
  );
});

test('special tokens and ids outside of the vocabulary give no text and break no character', () => {
  const [first = 0, ...rest] = byteTokens('é');
  const special = tokenizer.eosTokenIds[0]!;
  assert.equal(tokenizer.decode(Uint32Array.of(first, special, 1_000_000, ...rest)), 'é');
});

test('the cost of a token does not grow with the output', () => {
  const ids = tokenizer.encode('The quick brown fox jumps over the lazy dog, 삼겹살 and more. ');
  assert.ok(ids instanceof Uint32Array);
  const timeOf = (tokens: number): number => {
    const detokenizer = tokenizer.createDetokenizer();
    const start = performance.now();
    for (let i = 0; i < tokens; i++)
      detokenizer.push(ids.subarray(i % ids.length, (i % ids.length) + 1));
    return (performance.now() - start) / tokens;
  };
  const fastest = (tokens: number): number =>
    Math.min(...Array.from({ length: 6 }, () => timeOf(tokens)));
  timeOf(20_000);
  const short = fastest(2000);
  const long = fastest(40_000);
  assert.ok(long < 4 * short + 0.0005, `${short} ms a token at 2,000, ${long} at 40,000`);
});

test('a decoder of the library streams what it decodes as a whole', async () => {
  await withModel(byteFallbackModel(), async (path) => {
    const other = await loadTokenizer({ path });
    const text = 'hello world 삼겹살 👩‍👩‍👧 é, hello';
    const ids = await other.encode(text);
    const detokenizer = other.createDetokenizer();
    const deltas = Array.from(ids, (id) => detokenizer.push(Uint32Array.of(id)));
    assert.equal(deltas.join('') + detokenizer.flush(), text);
    assert.equal(other.decode(ids), text);
    for (const delta of deltas) assert.ok(delta.isWellFormed() && !delta.includes('\ufffd'));

    const cut = other.createDetokenizer();
    const firstBytes = (await other.encode('é')).subarray(0, -1);
    assert.equal(cut.push(firstBytes) + cut.flush(), '\ufffd');

    const invalid = Uint32Array.from({ length: 200 }, () => 3 + 0xff);
    const broken = other.createDetokenizer();
    assert.equal(broken.push(invalid) + broken.flush(), '\ufffd'.repeat(200));
    await other.close();
  });
});
