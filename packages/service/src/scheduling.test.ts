import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { platform } from 'node:os';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Scheduling, schedulingField } from './scheduling.ts';

const MODULE = new URL('./scheduling.ts', import.meta.url).href;
const CWD = fileURLToPath(new URL('.', import.meta.url));
const hasChrt = platform() === 'linux' && spawnSync('chrt', ['--batch', '0', 'true']).status === 0;

interface Seen {
  logged: string[];
  /** Scheduling policies of all threads by number: 0 SCHED_OTHER, 3 SCHED_BATCH. */
  policies: number[];
}

/** What a process of its own sees once its service is made, a thread that it starts later included. */
async function inProcess(scheduling: Scheduling, env?: Record<string, string>): Promise<Seen> {
  const script = `
    import { existsSync, readdirSync, readFileSync } from 'node:fs';
    import { once } from 'node:events';
    import { Worker } from 'node:worker_threads';
    const { scheduled } = await import(${JSON.stringify(MODULE)});
    const logged = [];
    const log = { debug: (_, text) => logged.push(text) };
    const create = scheduled(async (context, config) => logged.push('created'));
    await create({ log }, { scheduling: ${JSON.stringify(scheduling)} });
    const later = new Worker('setInterval(() => {}, 1000)', { eval: true });
    await once(later, 'online');
    const policies = existsSync('/proc/self/task')
      ? readdirSync('/proc/self/task').map((id) =>
          Number(readFileSync('/proc/self/task/' + id + '/stat', 'utf8').split(') ')[1].split(' ')[38]))
      : [];
    process.stdout.write(JSON.stringify({ logged, policies }));
    await later.terminate();
  `;
  const args = ['--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: CWD,
    ...(env === undefined ? {} : { env }),
  });
  return JSON.parse(stdout);
}

test('batch holds for every thread, also for later ones', {
  skip: !hasChrt && 'no chrt',
}, async () => {
  const { logged, policies } = await inProcess('batch');
  assert.deepEqual(logged, ['scheduling is set', 'created']);
  assert.ok(policies.length > 2, `${policies.length} threads`);
  assert.deepEqual([...new Set(policies)], [3]);
});

test('normal leaves the process as it was started', async () => {
  const { logged, policies } = await inProcess('normal');
  assert.deepEqual(logged, ['created']);
  assert.ok(policies.every((policy) => policy === 0));
});

test('without chrt the process goes on, and says so', {
  skip: platform() !== 'linux',
}, async () => {
  const { logged, policies } = await inProcess('batch', { PATH: '/nowhere' });
  assert.deepEqual(logged, ['scheduling could not be set for all threads', 'created']);
  assert.deepEqual([...new Set(policies)], [0]);
});

test('batch is the default', () => {
  assert.equal(schedulingField.parse(undefined), 'batch');
});
