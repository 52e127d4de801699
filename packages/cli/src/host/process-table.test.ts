import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { isAlive, markOf } from './process-table.ts';

test('this process is alive under its mark and dead under any other', () => {
  const mark = markOf(process.pid);
  assert.ok(mark);
  assert.equal(isAlive(mark), true);
  assert.equal(isAlive({ ...mark, startMark: `${mark.startMark}0` }), false);
});

test('a process that has ended is not alive', async () => {
  const child = spawn('sleep', ['60']);
  const mark = markOf(child.pid ?? 0);
  assert.ok(mark);
  assert.equal(isAlive(mark), true);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(isAlive(mark), false);
});
