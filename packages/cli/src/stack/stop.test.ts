import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isAlive, markOf } from '../host/process-table.ts';
import { stackState } from '../testing.ts';
import { until } from '../wait.ts';
import {
  type StackProcess,
  type StackRole,
  type StackState,
  stateFile,
  writeState,
} from './state.ts';
import { stopStack } from './stop.ts';

function start(role: StackRole, script: string): StackProcess {
  const child = spawn('/bin/sh', ['-c', script], { detached: true, stdio: 'ignore' });
  const mark = markOf(child.pid!)!;
  return { role, id: role, ...mark, startedAt: 'now' };
}

function state(processes: StackProcess[], drainMs: number): StackState {
  return stackState({
    drainMs,
    processes,
  });
}

test('frontends first, the server last; the whole group of each; the state goes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-stop-'));
  const pidFile = join(folder, 'grandchild');
  // The worker ends at SIGTERM and leaves a child that ignores it.
  const worker = start(
    'decode',
    `(trap "" TERM; echo $(sh -c 'echo $PPID') > ${pidFile}; while :; do sleep 0.05; done) & wait`,
  );
  const server = start('nats-server', 'exec sleep 60');
  const frontend = start('frontend', 'exec sleep 60');
  const gone = { ...frontend, id: 'gone', startMark: 'before' };
  writeState(folder, state([server, worker, frontend, gone], 1000));
  const pid = await until(
    () => (existsSync(pidFile) ? Number(readFileSync(pidFile)) || undefined : undefined),
    {
      timeoutMs: 5000,
      everyMs: 10,
    },
  );
  const grandchild = markOf(pid!);
  assert.ok(grandchild);
  const stages: string[] = [];
  const report = await stopStack(folder, state([server, worker, frontend, gone], 1000), (group) => {
    stages.push(group.map((entry) => entry.id).join());
    assert.match(readFileSync(stateFile(folder), 'utf8'), /"isStopping": true/);
  });
  assert.deepEqual(stages, ['frontend', 'decode', 'nats-server']);
  assert.deepEqual(report.killed, []);
  await until(() => !isAlive(grandchild) || undefined, { timeoutMs: 2000, everyMs: 10 });
  for (const mark of [worker, server, frontend, grandchild]) assert.equal(isAlive(mark), false);
  assert.equal(existsSync(stateFile(folder)), false);
  rmSync(folder, { recursive: true });
});

test('a process that ignores SIGTERM is killed, sooner when the person hurries', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-stop-'));
  const armed = join(folder, 'armed');
  const stubborn = start('router', `trap "" TERM; touch ${armed}; while :; do sleep 0.05; done`);
  await until(() => existsSync(armed) || undefined, { timeoutMs: 5000, everyMs: 10 });
  writeState(folder, state([stubborn], 60_000));
  const report = await stopStack(
    folder,
    state([stubborn], 60_000),
    () => {},
    AbortSignal.timeout(300),
  );
  assert.deepEqual(report.killed, [stubborn]);
  assert.equal(isAlive(stubborn), false);
  rmSync(folder, { recursive: true });
});
