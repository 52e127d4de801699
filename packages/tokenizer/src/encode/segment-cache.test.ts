import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadTokenizer } from '../index.ts';
import { SegmentCache } from './segment-cache.ts';

test('stays inside of its bytes, keeps what is used, leaves out what is tiny or too large', () => {
  const cache = new SegmentCache({ maxBytes: 100_000, cutsOf: undefined });
  const segment = (name: string): string => name.padEnd(200, '.');
  cache.set(segment('kept'), Uint32Array.of(1));
  for (let i = 0; i < 1000; i++) {
    cache.set(segment(`${i}`), new Uint32Array(50));
    assert.ok(cache.get(segment('kept')));
    assert.ok(cache.bytes <= 100_000);
  }
  assert.equal(cache.get(segment('0')), undefined);
  cache.set('short', Uint32Array.of(1));
  assert.equal(cache.get('short'), undefined);
  cache.set('x'.repeat(50_000), Uint32Array.of(1));
  assert.equal(cache.get('x'.repeat(50_000)), undefined);
});

test('a segment of which most is known by its head is not kept; a head leaves with its segment', () => {
  const cutsOf = (): Uint32Array => Uint32Array.of(896, 9);
  const cache = new SegmentCache({ maxBytes: 100_000, cutsOf });
  const document = 'words of a document '.repeat(50);
  cache.set(document, new Uint32Array(10));
  const { bytes } = cache;
  for (let i = 0; i < 100; i++) {
    const text = `${document}question ${i}`;
    const head = cache.headOf(text);
    assert.deepEqual([head?.offset, head?.ids.length], [896, 9]);
    assert.equal(cache.takes(text, head), false);
    assert.equal(cache.takes(text.padEnd(2000, '?'), head), true);
  }
  assert.equal(cache.bytes, bytes);
  // A head that serves others stays, as a segment that is asked for does.
  const fill = (from: number, asked: boolean): void => {
    for (let i = from; i < from + 200; i++) {
      cache.set(`${i} `.repeat(200), new Uint32Array(100));
      if (asked) assert.ok(cache.headOf(`${document}!`));
      assert.ok(cache.bytes <= 100_000);
    }
  };
  fill(1000, true);
  fill(2000, false);
  assert.equal(cache.get(document), undefined);
  assert.equal(cache.headOf(`${document}!`), undefined);
});

test('ids are the same with and without the cache, for prompts that share turns', async () => {
  const [warm, cold] = [await loadTokenizer({ threads: 0 }), await loadTokenizer({ threads: 0 })];
  const system = {
    role: 'system',
    content: 'You answer briefly, in the language of the question. é 삼겹살',
  };
  const turns = [system];
  for (let turn = 0; turn < 6; turn++) {
    turns.push({
      role: 'user',
      content: `Question ${turn}: how long is a piece of string, and why? <|im_end|>`,
    });
    turns.push({
      role: 'assistant',
      content: 'Twice as long as half of it, which follows at once.  \n',
    });
    const prompt = warm.renderChat(turns);
    const once = await warm.encode(prompt, { parseSpecial: true });
    const again = await warm.encode(prompt, { parseSpecial: true });
    const fresh = await (turn === 5 ? cold : warm).encode(prompt, { parseSpecial: true });
    assert.deepEqual([again, fresh], [once, once]);
  }
  await Promise.all([warm.close(), cold.close()]);
});
