import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { incompleteTail } from './utf8-tail.ts';

/** What a streaming decoder of the platform keeps back: the bytes that give nothing yet and would give U+FFFD at the end. */
function keptBack(bytes: Uint8Array): number {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const streamed = decoder.decode(bytes, { stream: true });
  if (decoder.decode() === '') return 0;
  for (let tail = 1; tail <= 3; tail++) {
    const head = bytes.subarray(0, bytes.length - tail);
    if (new TextDecoder('utf-8', { ignoreBOM: true }).decode(head) === streamed) return tail;
  }
  throw new Error('no tail explains the stream');
}

test('keeps back exactly what the platform keeps back', () => {
  const likelyBytes = fc.constantFrom(
    0x41,
    0x80,
    0x9f,
    0xa0,
    0xbf,
    0xc1,
    0xc2,
    0xe0,
    0xe4,
    0xed,
    0xf0,
    0xf4,
    0xf5,
  );
  const bytes = fc.array(fc.oneof(likelyBytes, fc.nat(255)), { maxLength: 6 });
  fc.assert(
    fc.property(bytes, (list) => {
      const data = Uint8Array.from(list);
      assert.equal(incompleteTail(data, data.length), keptBack(data), list.join());
    }),
    { numRuns: 3000 },
  );
});
