import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Cuts, NO_CUTS } from '../fast/cut-points.ts';
import { type CutSegment, HeadIndex, keyOf } from './head-index.ts';

/** Cuts every 64 characters, and one id a character. */
function everyWord(text: string): Cuts {
  const cuts: number[] = [];
  for (let at = 64; at < text.length; at += 64) cuts.push(at, at);
  return Uint32Array.from(cuts);
}

function segmentOf(text: string): CutSegment {
  const ids = new Uint32Array(text.length);
  return { text, ids, key: keyOf(text), cuts: NO_CUTS, cutChars: 0, next: undefined };
}

const words = (word: string, chars: number): string => `${word} `.repeat(chars).slice(0, chars);
const shared = words('shared', 1000);

test('a head ends at a cut well inside of what two texts have in common', () => {
  const index = new HeadIndex(everyWord);
  const first = segmentOf(shared + words('one', 500));
  index.add(first);
  assert.equal(index.find(words('other', 1500)), undefined);
  const head = index.find(shared + words('two', 500));
  assert.deepEqual([head?.offset, head?.ids.length, head?.source], [960, 960, first.text]);
  assert.ok(head !== undefined && head.offset + 32 <= shared.length);
  assert.equal(index.find(`${shared.slice(0, 300)}${words('two', 900)}`)?.offset, 256);
});

test('the cuts of a segment are found once, and again only when much more of it is shared', () => {
  const cut: number[] = [];
  const index = new HeadIndex((text) => {
    cut.push(text.length);
    return everyWord(text);
  });
  const long = shared + words('long', 4000);
  index.add(segmentOf(long));
  for (const own of ['two', 'three', 'four']) index.find(shared + words(own, 100));
  assert.deepEqual(cut, [1000]);
  assert.equal(index.find(`${long.slice(0, 4500)}!`)?.offset, 4416);
  index.find(`${long.slice(0, 4600)}!`);
  assert.deepEqual(cut, [1000, 4500]);
});

test('cuts that are known hold when a longer beginning has none', () => {
  const index = new HeadIndex((text) => (text.length > 1200 ? NO_CUTS : everyWord(text)));
  const long = shared + words('long', 3000);
  index.add(segmentOf(long));
  assert.equal(index.find(shared + words('two', 100))?.offset, 960);
  for (const chars of [3000, 3000, 3500]) {
    const head = index.find(`${long.slice(0, chars)}!`);
    assert.deepEqual([head?.offset, head?.ids.length, head?.cuts.length], [960, 960, 30]);
  }
});

test('of many segments that begin alike eight are compared, those used last', () => {
  const index = new HeadIndex(everyWord);
  const preamble = words('preamble', 600);
  const documents = Array.from({ length: 10 }, (_, i) => preamble + words(`${i}text`, 2000));
  for (const document of documents.slice(0, 8)) index.add(segmentOf(document));
  const used = documents[0]! + words('question', 50);
  assert.ok(index.find(used)!.offset > 2500);
  for (const document of documents.slice(8)) index.add(segmentOf(document));
  assert.ok(index.find(used)!.offset > 2500);
  assert.ok(index.find(documents[9]! + words('question', 50))!.offset > 2500);
  assert.ok(index.find(documents[1]! + words('question', 50))!.offset < 600);
});

test('a removed segment is gone, wherever it stood', () => {
  const index = new HeadIndex(everyWord);
  const segments = ['one', 'two', 'three'].map((own) => segmentOf(shared + words(own, 900)));
  for (const segment of segments) index.add(segment);
  for (const segment of [segments[1]!, segments[2]!, segments[0]!]) {
    const text = `${segment.text}!`;
    assert.equal(index.find(text)?.source, segment.text);
    index.remove(segment);
    index.remove(segment);
    assert.notEqual(index.find(text)?.source, segment.text);
  }
  assert.equal(index.keys, 0);
});
