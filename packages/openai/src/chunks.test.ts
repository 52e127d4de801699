import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { quote } from './chunks.ts';
import { type AnswerHead, answerBody, ChunkWriter } from './index.ts';

const chat: AnswerHead = { kind: 'chat', id: 'chatcmpl-1', created: 7, model: 'a"b' };
const usage = { promptTokens: 5, completionTokens: 2, cachedTokens: 9 };

interface Event {
  [field: string]: unknown;
  choices: Record<string, unknown>[];
}

function parse(event: string): Event {
  assert.match(event, /^data: .*\n\n$/);
  assert.equal(event.indexOf('\n'), event.length - 2);
  return JSON.parse(event.slice(6));
}

test('quote is JSON.stringify', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.equal(quote(text), JSON.stringify(text));
    }),
  );
  for (const text of ['\ud800', '😀', '\u2028', '\u007f', '\u0000', 'a\\"\n', '']) {
    assert.equal(quote(text), JSON.stringify(text));
  }
});

test('chat: one head, the role once per index, one finish, usage without choices', () => {
  const writer = new ChunkWriter(chat);
  const events = [
    writer.text(1, 'x'),
    writer.text(0, 'y "z"\n'),
    writer.text(1, 'w'),
    writer.finish(1, 'stop'),
    writer.finish(0, 'length'),
    writer.finish(2, 'stop'),
    writer.usage(usage),
  ].map(parse);
  for (const event of events) {
    assert.deepEqual(
      [event['id'], event['object'], event['created'], event['model']],
      ['chatcmpl-1', 'chat.completion.chunk', 7, 'a"b'],
    );
  }
  const choices = events.slice(0, 6).map((event) => event.choices[0]);
  assert.deepEqual(choices, [
    { index: 1, delta: { role: 'assistant', content: 'x' }, finish_reason: null },
    { index: 0, delta: { role: 'assistant', content: 'y "z"\n' }, finish_reason: null },
    { index: 1, delta: { content: 'w' }, finish_reason: null },
    { index: 1, delta: {}, finish_reason: 'stop' },
    { index: 0, delta: {}, finish_reason: 'length' },
    { index: 2, delta: { role: 'assistant', content: '' }, finish_reason: 'stop' },
  ]);
  assert.deepEqual(events[6]!.choices, []);
  assert.deepEqual(events[6]!['usage'], {
    prompt_tokens: 5,
    completion_tokens: 2,
    total_tokens: 7,
    prompt_tokens_details: { cached_tokens: 5 },
  });
});

test('completions: text in each choice', () => {
  const writer = new ChunkWriter({ ...chat, kind: 'completion', id: 'cmpl-1' });
  assert.deepEqual(parse(writer.text(0, 'x')).choices, [
    { index: 0, text: 'x', logprobs: null, finish_reason: null },
  ]);
  assert.equal(parse(writer.finish(0, 'stop'))['object'], 'text_completion');
});

test('tokens so far are behind the choices of an event, and nowhere unless they are given', () => {
  for (const kind of ['chat', 'completion'] as const) {
    const writer = new ChunkWriter({ ...chat, kind });
    const plain = [writer.text(0, 'x'), writer.text(0, 'y'), writer.finish(0, 'stop')].map(parse);
    const other = new ChunkWriter({ ...chat, kind });
    const told = [
      other.text(0, 'x', usage),
      other.text(0, 'y', usage),
      other.finish(0, 'stop', usage),
    ].map(parse);
    const expected = parse(writer.usage(usage))['usage'];
    assert.deepEqual(
      told,
      plain.map((event) => ({ ...event, usage: expected })),
    );
    assert.ok(plain.every((event) => !('usage' in event)));
  }
});

test('an answer in one piece has a message for chats and a text for completions', () => {
  const choices = [{ text: 'hi', finishReason: 'stop' as const }];
  const answer = JSON.parse(answerBody(chat, choices, usage));
  assert.deepEqual(answer.choices[0].message, { role: 'assistant', content: 'hi', refusal: null });
  assert.equal(answer.usage.total_tokens, 7);
  const completion = JSON.parse(answerBody({ ...chat, kind: 'completion' }, choices, usage));
  assert.equal(completion.choices[0].text, 'hi');
});
