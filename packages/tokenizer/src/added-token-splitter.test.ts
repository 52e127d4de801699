import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AddedTokenSplitter } from './added-token-splitter.ts';

test('cuts at tokens, the longer of two at one place, and gives no empty text', () => {
  const splitter = new AddedTokenSplitter([
    { id: 1, content: '<a>' },
    { id: 2, content: '<a><b>' },
    { id: 3, content: '|.*+?^$(){}[]\\-/' },
  ]);
  assert.deepEqual(splitter.split('x<a>y<a><b><a>'), ['x', 1, 'y', 2, 1]);
  assert.deepEqual(splitter.split('<a|.*+?^$(){}[]\\-/'), ['<a', 3]);
  assert.deepEqual(splitter.split(''), []);
  assert.deepEqual(new AddedTokenSplitter([]).split('<a>'), ['<a>']);
  assert.deepEqual(new AddedTokenSplitter([]).split(''), []);
});

test('an unfinished token at the end is text, and the next text starts afresh', () => {
  const splitter = new AddedTokenSplitter([{ id: 9, content: '<|end|>' }]);
  assert.deepEqual(splitter.split('a<|end|><|end|'), ['a', 9, '<|end|']);
  assert.deepEqual(splitter.split('<|end|>'), [9]);
});
