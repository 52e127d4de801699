import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatTraceparent, parseTraceparent } from './traceparent.ts';

const hex = (length: number) =>
  fc
    .string({
      unit: fc.constantFrom(...'0123456789abcdef'.split('')),
      minLength: length,
      maxLength: length,
    })
    .filter((text) => /[1-9a-f]/.test(text));

test('what is formatted can be read back', () => {
  fc.assert(
    fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, isSampled) => {
      const context = { traceId, spanId, isSampled };
      assert.deepEqual(parseTraceparent(formatTraceparent(context)), context);
    }),
  );
});

test('malformed text is ignored', () => {
  const good = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const bad = [
    undefined,
    '',
    `${good}-extra`,
    good.toUpperCase(),
    good.replace('00-', 'ff-'),
    good.replace('0af7651916cd43dd8448eb211c80319c', '0'.repeat(32)),
    good.replace('b7ad6b7169203331', '0'.repeat(16)),
    `${good}\r\n`,
    'x'.repeat(10_000),
  ];
  for (const text of bad) assert.equal(parseTraceparent(text), undefined, String(text));
  assert.ok(parseTraceparent(good.replace('00-', '01-').concat('-future')));
});
