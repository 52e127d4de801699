import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { z } from 'zod';
import { readAnswerPart, readErrorBody, readPlainTokens } from './answer.ts';
import { SseReader } from './sse-reader.ts';

const HTTP = join(import.meta.dirname, '../../../fixtures/vllm/http');
const recordSchema = z.object({
  response: z.object({
    status: z.int(),
    text: z.string().optional(),
    json: z.unknown().optional(),
  }),
});

function record(name: string): { status: number; text: string } {
  const { response } = recordSchema.parse(JSON.parse(readFileSync(join(HTTP, name), 'utf8')));
  return { status: response.status, text: response.text ?? JSON.stringify(response.json) };
}

function eventsOf(name: string): string[] {
  const events: string[] = [];
  new SseReader((data) => events.push(data)).push(Buffer.from(record(name).text));
  return events;
}

test('recorded streams of both routes: a token for each step, the reason, the cached tokens, the end', () => {
  for (const [name, token, cached] of [
    ['generate_stream.json', 169, 64],
    ['completion_tokens_stream.json', 59, 32],
  ] as const) {
    const events = eventsOf(name);
    assert.equal(events.at(-1), '[DONE]');
    const parts = events.slice(0, -1).map(readAnswerPart);
    assert.deepEqual(
      parts.map((part) => part?.tokens),
      [[token], [token], [token], [token], []],
    );
    assert.equal(parts[3]?.finish, 'length');
    assert.deepEqual(
      parts.map((part) => part?.cachedTokens),
      [undefined, undefined, undefined, undefined, cached],
    );
  }
});

test('a recorded prefill: one token, and the transfer parameters as they are', () => {
  const part = readAnswerPart(record('pd_prefill_generate.json').text);
  assert.equal(part?.finish, 'length');
  assert.equal(part?.tokens.length, 1);
  assert.equal(z.looseObject({}).parse(part?.kvTransferParams)['transfer_mode'], 'pull');
});

test('recorded errors: with a status, and within a stream of status 200', () => {
  const { status, text } = record('err_token_oov.json');
  const error = readErrorBody(status, text);
  assert.equal(error.status, 400);
  assert.match(error.message, /out of vocabulary/);
  const [event = ''] = eventsOf('pd_decode_unreachable_stream.json');
  assert.deepEqual(readAnswerPart(event)?.error, { message: 'Internal server error', status: 500 });
});

test('what is no answer is told apart', () => {
  for (const text of ['', '<html>', '[]', '1', '{}', '{"choices":[1]}', '{"choices":1}']) {
    assert.equal(readAnswerPart(text), undefined, text);
  }
  // Text without its tokens: the engine does not know `return_token_ids`.
  assert.equal(readAnswerPart('{"choices":[{"text":"a","finish_reason":null}]}'), undefined);
  assert.equal(readErrorBody(502, '<html>').message, '<html>');
  assert.equal(readErrorBody(502, '').message, 'HTTP status 502');
});

test('the fast reader agrees with the parser, whatever the text says', () => {
  const choice = fc.record({
    text: fc.oneof(fc.string(), fc.constant('"token_ids":[1] "finish_reason":null')),
    finish_reason: fc.constantFrom(null, 'stop', 'abort'),
    prompt_token_ids: fc.option(fc.array(fc.nat(), { maxLength: 3 })),
    token_ids: fc.array(fc.nat(0xffff_ffff), { maxLength: 4 }),
  });
  const usage = fc.option(fc.constant({ prompt_tokens_details: { cached_tokens: 3 } }));
  fc.assert(
    fc.property(choice, usage, (one, spent) => {
      const text = JSON.stringify({ id: 'x', choices: [one], usage: spent });
      const fast = readPlainTokens(text);
      const slow = readAnswerPart(text);
      if (fast === undefined) {
        assert.ok(one.finish_reason !== null || spent !== null || one.token_ids.length === 0);
        return;
      }
      assert.deepEqual([...fast], slow?.tokens);
      assert.equal(slow?.finish, undefined);
      assert.equal(slow?.cachedTokens, undefined);
    }),
  );
  assert.deepEqual(readPlainTokens(eventsOf('generate_stream.json')[0] ?? ''), Uint32Array.of(169));
});
