import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError } from './errors.ts';
import { shellWords } from './shell-words.ts';

test('arguments are words as in a shell, and no shell sees them', () => {
  assert.deepEqual(shellWords('X', undefined), []);
  assert.deepEqual(shellWords('X', `--a 1  --b '{"x": "y z"}' "c \\"d\\"" e\\ f $HOME \`id\` *`), [
    '--a',
    '1',
    '--b',
    '{"x": "y z"}',
    'c "d"',
    'e f',
    '$HOME',
    '`id`',
    '*',
  ]);
  const problemOf = (text: string): string => {
    try {
      return shellWords('BUSBAR_X', text).join();
    } catch (error) {
      assert.ok(error instanceof ServiceError && error.code === 'SERVICE_CONFIG');
      return error.message;
    }
  };
  const cannot = 'BUSBAR_X cannot be read as words:';
  assert.equal(problemOf(`--a 'open`), `${cannot} a quote is opened and not closed.`);
  assert.equal(problemOf('--a b\\'), `${cannot} nothing follows its last backslash.`);
});
