import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SseReader } from './sse-reader.ts';

function read(chunks: readonly Buffer[]): string[] {
  const events: string[] = [];
  const reader = new SseReader((data) => events.push(data));
  for (const chunk of chunks) reader.push(chunk);
  return events;
}

const EVENTS = [
  '{"text":"漢字かな 🦜🧭 é"}',
  '{"text":"a\u2028b\u2029c\u0085d"}',
  '{"a":1}\n{"b":2}',
  '',
  '{"token_ids":[1,2,3]}',
  '[DONE]',
];
const BODY = [
  ': a comment, and another line of it\n: 🦜\n',
  `data: ${EVENTS[0]}\n\n`,
  `event: message\nid: 7\ndata: ${EVENTS[1]}\nretry: 5\n\n`,
  'data: {"a":1}\ndata:{"b":2}\n\n',
  'data\n\n',
  '\n\n',
  `data:${EVENTS[4]}\n\ndata: [DONE]\n\n`,
].join('');

test('the same events for every cut, with LF, CR and CRLF', () => {
  for (const end of ['\n', '\r', '\r\n']) {
    const bytes = Buffer.from(BODY.replaceAll('\n', end));
    for (let cut = 0; cut <= bytes.length; cut++) {
      const events = read([bytes.subarray(0, cut), bytes.subarray(cut)]);
      assert.deepEqual(events, EVENTS, `${JSON.stringify(end)} cut at ${cut}`);
    }
    const each = read(Array.from(bytes, (byte) => Buffer.of(byte)));
    assert.deepEqual(each, EVENTS);
  }
});

test('several events in one chunk, and any number of cuts', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 8 }),
      fc.array(fc.nat(400), { maxLength: 12 }),
      (texts, cuts) => {
        const events = texts.map((text) => JSON.stringify({ text }));
        const bytes = Buffer.from(events.map((event) => `data: ${event}\r\n\r\n`).join(''));
        const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length];
        places.sort((a, b) => a - b);
        const chunks = places.slice(1).map((to, i) => bytes.subarray(places[i], to));
        assert.deepEqual(read(chunks), events);
      },
    ),
  );
});

test('an event that no blank line ends is dropped, as the standard says', () => {
  assert.deepEqual(read([Buffer.from('data: a\n\ndata: b\n')]), ['a']);
  assert.deepEqual(read([Buffer.from('data: a\n\ndata: b')]), ['a']);
});

test('a line without an end is refused', () => {
  const reader = new SseReader(() => {});
  const piece = Buffer.alloc(1_048_576, 97);
  assert.throws(() => {
    for (let i = 0; i < 17; i++) reader.push(piece);
  }, RangeError);
});
