import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSse, waitFor } from './index.ts';

test('answers the first truthy value, and takes a throw as "not yet"', async () => {
  let calls = 0;
  const value = await waitFor(
    () => {
      if (++calls < 3) throw new Error('early');
      return calls;
    },
    1_000,
    'third call',
  );
  assert.equal(value, 3);
});

test('says what was waited for, and the last error', async () => {
  const failing = waitFor(() => Promise.reject(new Error('refused')), 30, 'the server');
  await assert.rejects(failing, /the server: not within 30 ms \(last error: refused\)/);
});

test('reads events that are cut anywhere, also inside a character', async () => {
  const wire = new TextEncoder().encode(
    ': ping\n\ndata: {"a":"é"}\n\nevent: x\ndata: 1\ndata: 2\n\n',
  );
  const body = new ReadableStream({
    start(controller) {
      for (const byte of wire) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const events = [];
  for await (const { event, data } of readSse(new Response(body))) events.push([event, data]);
  assert.deepEqual(events, [
    [undefined, '{"a":"é"}'],
    ['x', '1\n2'],
  ]);
});
