import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Instance } from '@busbar/protocol';
import { instanceOf } from '../doctor/facts.testing.ts';
import { markOf } from '../host/process-table.ts';
import { fakeContext, stackState } from '../testing.ts';
import { until } from '../wait.ts';
import { type StackState, writeState } from './state.ts';
import { stopAloud } from './stop-aloud.ts';

async function stopOne(
  script: string,
  hurry: AbortSignal,
  joined: readonly Instance[] = [],
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-stop-'));
  const armed = join(folder, 'armed');
  const child = spawn(
    '/bin/sh',
    ['-c', `${script}; touch ${armed}; while :; do sleep 0.05; done`],
    {
      detached: true,
      stdio: 'ignore',
    },
  );
  await until(() => existsSync(armed) || undefined, { timeoutMs: 5_000, everyMs: 10 });
  const process = { role: 'frontend', id: 'front', ...markOf(child.pid!)!, startedAt: '' } as const;
  const state: StackState = stackState({
    drainMs: 30_000,
    processes: [process],
  });
  writeState(folder, state);
  const fake = fakeContext();
  await stopAloud(fake.context, folder, state, hurry, () => Promise.resolve([...joined]));
  rmSync(folder, { recursive: true });
  return fake.out();
}

test('a stop that waits says for what, how long at most, and what Ctrl-C does', async () => {
  const out = await stopOne('trap "" TERM', AbortSignal.timeout(2_000));
  assert.equal(
    out,
    [
      'Stopping front …',
      'Running requests may finish, for up to 30 s. Ctrl-C ends them now, each with an error.',
      'Killed, to wait no longer: front',
      '',
    ].join('\n'),
  );
});

test('a quick stop is one line', async () => {
  assert.equal(await stopOne(':', new AbortController().signal), 'Stopping front …\n');
});

test('what somebody else started is named, unless it is gone from this machine', async () => {
  const here = { ...instanceOf('decode', 'mine'), host: hostname(), pid: process.pid };
  const gone = { ...here, id: 'gone', pid: 2 ** 30 };
  const there = { ...instanceOf('prefill', 'theirs'), host: 'elsewhere', pid: 2 ** 30 };
  const out = await stopOne(':', new AbortController().signal, [here, gone, there]);
  assert.match(
    out,
    new RegExp(
      `^Still here, started by someone else: mine \\(pid ${process.pid} on .*\\), theirs \\(pid \\d+ on elsewhere\\)\\.$`,
      'm',
    ),
  );
  assert.doesNotMatch(out, /gone/);
});
