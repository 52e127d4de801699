import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StopMatcher } from './index.ts';

function run(stops: string[], pieces: string[]): { shown: string[]; isStopped: boolean } {
  const matcher = new StopMatcher(stops);
  const shown = pieces.map((piece) => matcher.push(piece));
  shown.push(matcher.flush());
  return { shown, isStopped: matcher.isStopped };
}

/** The plain definition: the stop text that is complete first, the longest of those. */
function cutByDefinition(text: string, stops: string[]): string {
  for (let end = 1; end <= text.length; end++) {
    const ended = stops.filter((stop) => text.slice(0, end).endsWith(stop));
    if (ended.length > 0) return text.slice(0, end - Math.max(...ended.map((s) => s.length)));
  }
  return text;
}

test('no byte of a stop text that arrives in pieces is shown', () => {
  const { shown, isStopped } = run(['beta gamma'], ['alpha ', 'beta', ' gam', 'ma delta']);
  assert.deepEqual(shown, ['alpha ', '', '', '', '']);
  assert.equal(isStopped, true);
});

test('the first in the text wins, whatever the order of the list', () => {
  for (const stops of [
    ['re', 'he'],
    ['he', 're'],
  ]) {
    assert.equal(run(stops, ['there']).shown.join(''), 't');
  }
});

test('a false start is released as soon as it is one, the rest at the end', () => {
  assert.deepEqual(run(['beta'], ['be', 'tter']).shown, ['', 'better', '']);
  const { shown, isStopped } = run(['beta gamma'], ['one beta', ' ga']);
  assert.deepEqual(shown, ['one ', '', 'beta ga']);
  assert.equal(isStopped, false);
});

test('streamed in any pieces it shows what the definition says of the whole', () => {
  const alphabet = fc.constantFrom('a', 'b', 'ab', 'aab', '😀', 'é');
  const text = fc.array(alphabet, { maxLength: 40 });
  const stop = fc.array(alphabet, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(text, fc.array(stop, { minLength: 1, maxLength: 4 }), (pieces, stops) => {
      const whole = pieces.join('');
      const expected = cutByDefinition(whole, stops);
      assert.equal(run(stops, pieces).shown.join(''), expected);
      assert.equal(run(stops, [whole]).shown.join(''), expected);
      assert.equal(run(stops, whole.split('')).shown.join(''), expected);
    }),
    { numRuns: 2000 },
  );
});

test('long stop texts that nearly match cost no more than short ones', () => {
  const matcher = new StopMatcher([`${'a'.repeat(1023)}b`]);
  let shown = 0;
  for (let i = 0; i < 20_000; i++) shown += matcher.push('aaaa').length;
  assert.equal(shown + matcher.flush().length, 80_000);
});
