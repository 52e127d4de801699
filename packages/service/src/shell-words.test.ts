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
  assert.throws(
    () => shellWords('BUSBAR_X', `--a 'open`),
    (error: unknown) =>
      error instanceof ServiceError &&
      error.code === 'SERVICE_CONFIG' &&
      error.message.startsWith('BUSBAR_X cannot be read'),
  );
});
