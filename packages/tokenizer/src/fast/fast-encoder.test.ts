import assert from 'node:assert/strict';
import { threadCpuUsage } from 'node:process';
import { before, test } from 'node:test';
import { HfEncoder } from '../huggingface/hf-encoder.ts';
import { IdBuffer } from '../id-buffer.ts';
import { OWN_MODEL } from '../models.testing.ts';
import { readModelFiles } from '../thread/model-files.ts';
import { buildFastModel } from './build-fast-model.ts';
import { FastEncoder } from './fast-encoder.ts';
import type { FastModel } from './fast-model.ts';
import { frameOf, selfCheck } from './self-check.ts';

let model: FastModel;
let hf: HfEncoder;
let encoder: FastEncoder;
const out = new IdBuffer();

before(async () => {
  const { json, config } = await readModelFiles(OWN_MODEL);
  hf = new HfEncoder(json, config);
  const built = buildFastModel(json, config, hf, new Set());
  assert.ok(built.model);
  model = built.model;
  encoder = new FastEncoder(model);
});

function encode(text: string): Uint32Array {
  encoder.encodeInto(text, out);
  return out.take();
}

/** Mean processor time, which other load on the machine hardly changes; the kernel counts it in steps of milliseconds. */
function cpuMs(text: string, runs: number): number {
  encode(text);
  const start = threadCpuUsage();
  for (let run = 0; run < runs; run++) encode(text);
  return threadCpuUsage(start).user / 1000 / runs;
}

test('long pieces do not cost quadratic time', () => {
  const manyHan = (count: number): string =>
    Array.from({ length: count }, (_, i) =>
      String.fromCharCode(0x4e00 + ((i * 7919) % 20_000)),
    ).join('');
  const kinds = [
    (count: number) => 'a'.repeat(count),
    (count: number) => ' '.repeat(count),
    (count: number) => '\n \t'.repeat(count / 3),
    (count: number) => "'!".repeat(count / 2),
    manyHan,
  ];
  for (const kind of kinds) {
    const once = cpuMs(kind(20_000), 12);
    const fourTimes = cpuMs(kind(80_000), 4);
    assert.ok(once < 20, `${kind.toString()}: ${once} ms for 20,000 characters`);
    assert.ok(
      fourTimes < 10 * once + 10,
      `${kind.toString()}: ${once} ms, four times as long ${fourTimes} ms`,
    );
  }
});

test('the piece cache changes no ids, also when it is full', () => {
  const text = 'The cache of pieces is filled and emptied. ';
  const fresh = encode(text);
  for (let i = 0; i < 70_000; i++) encode(`w${i.toString(36)}`);
  assert.deepEqual(encode(text), fresh);
  const other = new IdBuffer();
  new FastEncoder(model).encodeInto(text, other);
  assert.deepEqual(encode(text), other.take());
});

test('the self-check passes for a right model and names a text for a wrong one', () => {
  const frame = frameOf(hf);
  assert.ok(frame);
  assert.equal(selfCheck(model, frame, [], hf), undefined);
  const wrongByte = Uint32Array.from(model.byteIds);
  wrongByte[0x7a] = model.byteIds[0x79]!;
  assert.match(selfCheck({ ...model, byteIds: wrongByte }, frame, [], hf) ?? '', /other ids for "/);
  const withoutMerges = { ...model, mergeSlots: model.mergeSlots.slice().fill(-1) };
  assert.ok(selfCheck(withoutMerges, frame, [], hf));
  assert.ok(selfCheck({ ...model, normalizesNfc: false }, frame, [], hf));
});
