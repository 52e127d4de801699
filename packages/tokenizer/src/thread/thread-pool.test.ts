import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPool } from './thread-pool.ts';

test('an answer that crosses the end of its thread does not end the process', async () => {
  const pool = createPool({ data: { kind: 'folder', folder: '' }, threads: 1, idleMs: 0 });
  assert.doesNotThrow(() => pool.emit('error', new Error('Unexpected message from Worker')));
  await pool.destroy();
});
