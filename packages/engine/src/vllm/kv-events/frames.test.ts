import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { decoded, linesOf } from './fixtures.testing.ts';
import { readPublished, readReplayed, replayRequest } from './frames.ts';

const linesSchema = z.array(z.array(z.string()));

function recordedAnswers(file: string): Uint8Array[][] {
  return linesSchema
    .parse(linesOf(file))
    .map((frames) => frames.map((hex) => Uint8Array.from(Buffer.from(hex, 'hex'))));
}

test('reads the recorded replay, with its topic and as older releases send it', () => {
  const answers = recordedAnswers('replay-dealer-from12.jsonl');
  for (const frames of [answers, answers.map(([empty, , ...rest]) => [empty!, ...rest])]) {
    const read = frames.map(readReplayed);
    assert.equal(read.at(-1), 'end');
    const messages = read.filter((answer) => answer !== undefined && answer !== 'end');
    assert.deepEqual(
      messages.map(({ sequence }) => sequence),
      [12, 13, 14],
    );
    assert.deepEqual(
      messages.map(({ payload }) => decoded(payload).map(({ kind }) => kind)),
      [['cleared', 'stored'], ['stored'], ['stored']],
    );
  }
});

test('frames of another number or size are nothing', () => {
  const number = replayRequest(5)[1]!;
  const payload = Uint8Array.of(1);
  const empty = new Uint8Array();
  assert.deepEqual(readPublished([empty, number, payload]), { sequence: 5, payload });
  assert.equal(readPublished([number, payload]), undefined);
  assert.equal(readPublished([empty, number, payload, payload]), undefined);
  assert.equal(readPublished([empty, payload, payload]), undefined);
  assert.equal(readPublished([empty, new Uint8Array(8).fill(0xff), payload]), undefined);
  assert.equal(readReplayed([]), undefined);
  assert.equal(readReplayed([payload, number, payload]), undefined);
  assert.equal(readReplayed([empty, number]), undefined);
  assert.equal(readReplayed([empty, new Uint8Array(8).fill(0xff), payload]), undefined);
  assert.equal(readReplayed([empty, new Uint8Array(8).fill(0xff), empty]), 'end');
});
