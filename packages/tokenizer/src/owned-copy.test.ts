import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownedCopy } from './owned-copy.ts';

test('a copy is equal, whatever its length and characters', () => {
  for (const part of ['a', 'é', '汉', '👩‍👩‍👧', '\0\ufeff', 'plain ']) {
    for (const count of [0, 1, 13, 200, 5461, 5462, 20_000]) {
      const text = part.repeat(count);
      assert.equal(ownedCopy(text), text);
      assert.equal(ownedCopy(`${text}!`), `${text}!`);
    }
  }
});
