import assert from 'node:assert/strict';
import { test } from 'node:test';
import { staysBetweenWords } from './split-reach.ts';

const stays = (pattern: RegExp): boolean => staysBetweenWords([{ pattern, gaps: 'pieces' }]);

test('the patterns of known models stay between words', () => {
  const known = [
    /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu,
    /(?:'[sS]|'[tT])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
    /[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+(?:'s|'t)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+/gu,
    /[!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|\s+(?!\S)/gu,
    /[^\d]+|\d+/gu,
    /[一-龥぀-ゟ゠-ヿ]+/gu,
  ];
  for (const pattern of known) assert.ok(stays(pattern), pattern.source);
});

test('patterns that may look across words, back or at the ends of a text do not', () => {
  const reaching = [
    /(?<=[a-z]) |\w+/gu,
    /(?<!x)y/gu,
    /\bword\b|\s/gu,
    /^\s*\w+|\w+/gu,
    /\w+$|\w/gu,
    /.+\n|\w+|\s/gu,
    /[^\n]+\n|\w+|\s/gu,
    /\P{N}+\d|\w+/gu,
    /\D+!|\w+|\s/gu,
    /(?: ?[a-z]+)+\n|\w+|\s/gu,
    /(?: [a-z]+){9}|\w+|\s/gu,
    /(\w)\1|\w/gu,
    /(?<a>\w)\k<a>|\w/gu,
    /\w+/giu,
  ];
  for (const pattern of reaching) assert.equal(stays(pattern), false, pattern.source);
});
