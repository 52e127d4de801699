import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limit, type WorkHeader } from '@busbar/protocol';
import { type IntakeResult, WorkIntake } from './work-intake.ts';

let nowMs = 0;
const clock = { monotonicMs: () => nowMs, wallMs: () => nowMs };

function header(more: Partial<WorkHeader> = {}): WorkHeader {
  return {
    streamId: 1,
    frontendId: 'f1',
    decisionId: 'd1',
    model: 'm',
    promptTokens: 6,
    maxTokens: 4,
    sampling: {},
    ...more,
  };
}

function codeOf(result: IntakeResult): string {
  assert.equal(result.kind, 'refused');
  return result.kind === 'refused' && result.ack.kind === 'refused' ? result.ack.code : '';
}

test('a prompt in one message must have the announced length', () => {
  const intake = new WorkIntake(clock);
  const tokens = Uint32Array.of(1, 2, 3, 4, 5, 6);
  assert.equal(intake.take(header(), tokens).kind, 'complete');
  assert.equal(codeOf(intake.take(header({ promptTokens: 7 }), tokens)), 'WORKER_BAD_REQUEST');
  const huge = header({ promptTokens: limit('promptTokens') + 1 });
  assert.equal(codeOf(intake.take(huge, tokens)), 'WORKER_BAD_REQUEST');
});

test('parts come together in order, also when two prompts come interleaved', () => {
  const intake = new WorkIntake(clock);
  const send = (streamId: number, part: number, ...tokens: number[]): IntakeResult =>
    intake.take(header({ streamId, part, parts: 3 }), Uint32Array.from(tokens));
  assert.equal(send(1, 0, 1, 2).kind, 'partial');
  assert.equal(send(2, 0, 11, 12).kind, 'partial');
  assert.equal(send(1, 1, 3, 4).kind, 'partial');
  assert.equal(send(2, 1, 13, 14).kind, 'partial');
  const first = send(1, 2, 5, 6);
  const second = send(2, 2, 15, 16);
  assert.deepEqual(first.kind === 'complete' && [...first.work.tokens], [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(second.kind === 'complete' && [...second.work.tokens], [11, 12, 13, 14, 15, 16]);
  assert.equal(intake.open, 0);
});

test('a part out of order, one too many, unknown or late is refused and its prompt dropped', () => {
  const intake = new WorkIntake(clock);
  const send = (part: number, ...tokens: number[]): IntakeResult =>
    intake.take(header({ part, parts: 3 }), Uint32Array.from(tokens));
  assert.equal(codeOf(send(1, 3, 4)), 'WORKER_BAD_REQUEST');
  send(0, 1, 2);
  assert.equal(codeOf(send(2, 3, 4)), 'WORKER_BAD_REQUEST');
  assert.equal(intake.open, 0);
  send(0, 1, 2);
  assert.equal(codeOf(send(1, 3, 4, 5, 6, 7)), 'WORKER_BAD_REQUEST');
  send(0, 1, 2);
  send(1, 3);
  assert.equal(codeOf(send(2, 4)), 'WORKER_BAD_REQUEST', 'shorter than announced');
  send(0, 1, 2);
  nowMs += 60_000;
  intake.expire();
  assert.equal(intake.open, 0);
  assert.equal(codeOf(send(1, 3, 4)), 'WORKER_BAD_REQUEST');
});

test('prompts that are never completed do not pile up', () => {
  const intake = new WorkIntake(clock);
  const codes = new Set<string>();
  for (let streamId = 1; streamId <= 100; streamId++) {
    const result = intake.take(header({ streamId, part: 0, parts: 2 }), Uint32Array.of(1));
    if (result.kind === 'refused') codes.add(codeOf(result));
  }
  assert.ok(intake.open <= 32);
  assert.deepEqual([...codes], ['WORKER_FULL']);
  intake.drop('f1', 1);
  assert.ok(intake.open <= 31);
});
