import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BodyBuffer } from './body-buffer.ts';

test('pieces of any size come back as one', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (pieces) => {
      const body = new BodyBuffer();
      const copies = pieces.map((piece) => Buffer.from(piece));
      for (const piece of copies) body.append(piece);
      assert.deepEqual(body.whole, Buffer.concat(pieces));
      for (const [i, piece] of copies.entries()) assert.deepEqual(piece, Buffer.from(pieces[i]!));
      body.clear();
      assert.equal(body.whole.length, 0);
    }),
  );
});

test('a body byte by byte takes little more memory than its bytes', () => {
  const body = new BodyBuffer();
  const count = 2_000_000;
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  for (let i = 0; i < count; i++) body.append(Buffer.from([i & 0xff]));
  const now = process.memoryUsage();
  assert.equal(body.whole.length, count);
  const grownBytes = now.heapUsed - heapUsed + now.arrayBuffers - arrayBuffers;
  assert.ok(grownBytes < 64 * 1024 * 1024, `${grownBytes} bytes`);
});
