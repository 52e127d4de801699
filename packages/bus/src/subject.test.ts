import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { matchesSubject } from './subject.ts';

const token = fc.constantFrom('a', 'b', 'c', 'aa');
const subject = fc.array(token, { minLength: 1, maxLength: 5 });
const pattern = fc
  .tuple(fc.array(fc.oneof(token, fc.constant('*')), { maxLength: 4 }), fc.boolean())
  .map(([tokens, open]) => (open || tokens.length === 0 ? [...tokens, '>'] : tokens));

/** The same question asked of a regular expression. */
function byRegExp(wanted: string[], given: string[]): boolean {
  const parts = wanted.map((part) => (part === '>' ? '.+' : part === '*' ? '[^.]+' : part));
  return new RegExp(`^${parts.join('\\.')}$`).test(given.join('.'));
}

test('matches as a regular expression does', () => {
  fc.assert(
    fc.property(pattern, subject, (wanted, given) => {
      const answer = matchesSubject(wanted.join('.'), given.join('.'));
      assert.equal(answer, byRegExp(wanted, given));
    }),
  );
});
