import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { until } from '../wait.ts';
import { endEngineGroups, engineGroupsOf, livingGroups, mergeGroups } from './engine-groups.ts';
import { markOf, type ProcessEntry, signalProcess } from './process-table.ts';

const PATIENCE = { timeoutMs: 5_000, everyMs: 10 };

function entry(pid: number, parentPid: number, groupId: number, startMark = `s${pid}`) {
  return { pid, parentPid, groupId, startMark } satisfies ProcessEntry;
}

test('the groups of what descends from a worker, and not its own', () => {
  const table = [
    entry(30, 20, 20), // before its parent
    entry(10, 1, 10),
    entry(11, 10, 10),
    entry(20, 11, 20),
    entry(40, 1, 40), // of somebody else
  ];
  assert.deepEqual(engineGroupsOf(10, table), [
    {
      groupId: 20,
      members: [
        { pid: 30, startMark: 's30' },
        { pid: 20, startMark: 's20' },
      ],
    },
  ]);
  assert.deepEqual(engineGroupsOf(99, table), []);
});

test('a group lives while one that was seen in it runs there; a number given anew is another group', () => {
  const group = { groupId: 20, members: [{ pid: 30, startMark: 's30' }] };
  assert.deepEqual(livingGroups([group], [entry(30, 1, 20)]), [group]);
  assert.deepEqual(livingGroups([group], [entry(30, 1, 20, 'later')]), []);
  assert.deepEqual(livingGroups([group], [entry(30, 1, 31)]), []);
  const more = { groupId: 20, members: [{ pid: 31, startMark: 's31' }] };
  const other = { groupId: 40, members: [{ pid: 40, startMark: 's40' }] };
  assert.deepEqual(mergeGroups([group, other], [more]), [other, more]);
});

test('what a killed worker leaves is ended, also when it ignores SIGTERM, and nothing else is', {
  skip: process.platform !== 'linux' && 'reads /proc',
}, async () => {
  // The worker starts an "engine" in a session of its own, which ignores SIGTERM and has a child.
  const engine = 'trap "" TERM; sleep 300 & while :; do sleep 0.05; done';
  const worker = spawn('/bin/sh', ['-c', `setsid /bin/sh -c '${engine}' & wait`], {
    detached: true,
    stdio: 'ignore',
  });
  const stranger = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' });
  const strangerMark = markOf(stranger.pid!);
  try {
    const groups = await until(() => {
      const found = engineGroupsOf(worker.pid!);
      return (found[0]?.members.length ?? 0) >= 2 ? found : undefined;
    }, PATIENCE);
    assert.ok(groups);
    signalProcess(worker.pid!, 'SIGKILL');
    await until(() => markOf(worker.pid!) === undefined || undefined, PATIENCE);
    assert.deepEqual(livingGroups(groups), groups);
    const foreign = { groupId: stranger.pid!, members: [{ pid: stranger.pid!, startMark: 'x' }] };
    assert.deepEqual(await endEngineGroups([...groups, foreign], 100), groups);
    assert.deepEqual(livingGroups(groups), []);
    assert.deepEqual(markOf(stranger.pid!), strangerMark);
  } finally {
    stranger.kill('SIGKILL');
    worker.kill('SIGKILL');
  }
});
