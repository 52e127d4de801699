import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from './logger.ts';
import { formatPretty } from './pretty.ts';

test('json lines carry base fields, level name and child fields', () => {
  const lines: string[] = [];
  const log = createLogger({
    level: 'info',
    format: 'json',
    base: { role: 'router', id: 'router-1' },
    write: (line) => lines.push(line),
  });
  log.debug({}, 'hidden');
  log.child({ workerId: 'w1' }).warn({ gap: 2 }, 'kv events were lost');
  assert.equal(lines.length, 1);
  const record = JSON.parse(lines[0]!) as Record<string, unknown>;
  assert.match(String(record['time']), /^\d{4}-\d\d-\d\dT/);
  delete record['time'];
  assert.deepEqual(record, {
    level: 'warn',
    role: 'router',
    id: 'router-1',
    workerId: 'w1',
    gap: 2,
    message: 'kv events were lost',
  });
});

test('a line cannot name its process anew: JSON would have the field twice', () => {
  const log = createLogger({ level: 'silent', format: 'json', base: { role: 'router', id: 'r' } });
  // @ts-expect-error
  log.info({ role: 'decode', model: 'm' }, 'worker joined');
  // @ts-expect-error
  log.child({ id: 'decode-1' }).warn({ message: 'x' }, 'worker left');
  log.info({ workerId: 'decode-1', workerRole: 'decode' }, 'worker joined');
});

test('pretty lines are one line for a person, with the stack of an error below', () => {
  const lines: string[] = [];
  const log = createLogger({
    level: 'debug',
    format: 'pretty',
    base: { role: 'router', id: 'router-1' },
    write: (line) => lines.push(line),
  });
  log.info({ model: 'a b', count: 3 }, 'ready');
  log.error({ err: new Error('boom') }, 'failed');
  assert.match(lines[0]!, /^\d\d:\d\d:\d\d\.\d{3} info {2}router-1 ready model="a b" count=3\n$/);
  assert.match(lines[1]!, /ERROR router-1 failed\n {4}Error: boom\n {8}at /);
  assert.equal(formatPretty('not json\n'), 'not json\n');
});
