import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadTokenizer } from '../index.ts';
import { SegmentCache } from './segment-cache.ts';

test('stays inside of its bytes, keeps what is used, leaves out what is tiny or too large', () => {
  const cache = new SegmentCache(100_000);
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
