import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { CliError } from '../errors.ts';
import { markOf } from '../host/process-table.ts';
import { stackState } from '../testing.ts';
import { checkNoStack } from '../up/free.ts';
import {
  claimState,
  liveProcesses,
  readState,
  type StackState,
  stackUrl,
  stateFile,
  writeState,
} from './state.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'busbar-state-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function state(processes: StackState['processes'] = []): StackState {
  return stackState({
    port: 9000,
    policy: 'predictive',
    natsUrl: 'nats://127.0.0.1:1',
    drainMs: 1000,
    processes,
  });
}

const self = markOf(process.pid)!;
const alive = { role: 'router', id: 'r', ...self, startedAt: 'now' } as const;
/** The pid of this process, as another process that had it before. */
const reused = { ...alive, id: 'old', startMark: 'before' };

test('what was written is read back; no file is no state', () => {
  assert.equal(readState(folder), undefined);
  writeState(folder, state([alive]));
  assert.deepEqual(readState(folder), state([alive]));
});

test('a broken file is an error with its path, not a crash and not an empty stack', () => {
  for (const text of ['', '{', '{"version":2}', '[]']) {
    writeFileSync(stateFile(folder), text);
    assert.throws(
      () => readState(folder),
      (error) =>
        error instanceof CliError &&
        error.code === 'CLI_STATE' &&
        error.message.includes(stateFile(folder)),
    );
  }
});

test('a pid that another process has now is not ours', () => {
  assert.deepEqual(liveProcesses(state([alive, reused])), [alive]);
});

test('a stack that lives refuses a second one; what a dead one left is cleared', () => {
  writeState(folder, state([reused]));
  checkNoStack(folder);
  assert.equal(existsSync(stateFile(folder)), false);
  writeState(folder, state([reused, alive]));
  assert.throws(
    () => checkNoStack(folder),
    new RegExp(`already running \\(namespace ns, pid ${process.pid}, port 9000\\).*busbar down`),
  );
  assert.equal(existsSync(stateFile(folder)), true);
});

test('a start that has no process yet holds the folder while it lives', () => {
  writeState(folder, { ...state([]), starter: { ...alive } });
  assert.throws(() => checkNoStack(folder), /is being started \(namespace ns, pid/);
  assert.equal(existsSync(stateFile(folder)), true);
  writeState(folder, { ...state([]), starter: { ...reused } });
  checkNoStack(folder);
  assert.equal(existsSync(stateFile(folder)), false);
});

test('of two starts at once, one gets the folder', () => {
  const inner = join(folder, 'new');
  claimState(inner, state());
  assert.throws(() => claimState(inner, state()), /another start/);
});

test('a folder that cannot be made or written is told as such, and at once', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const cases = [join(file, 'default'), file];
  if (process.platform === 'linux') cases.push('/proc/none/default');
  for (const stateDir of cases) {
    assert.throws(
      () => claimState(stateDir, state()),
      (error) =>
        error instanceof CliError &&
        error.code === 'CLI_STATE' &&
        error.message.includes(stateDir) &&
        /BUSBAR_STATE_DIR/.test(error.message),
      stateDir,
    );
  }
});

test('a state file that cannot be written is no other start', {
  skip: process.platform !== 'linux' && 'a folder that nobody may write in is needed, root neither',
}, () => {
  assert.throws(() => claimState('/proc/self', state()), /cannot hold the state of a stack: /);
});

test('a state that cannot be read is no missing stack', () => {
  mkdirSync(stateFile(folder));
  assert.throws(() => readState(folder), /cannot be read: EISDIR/);
});

test('a wildcard address is reached by loopback', () => {
  assert.equal(stackUrl({ host: '0.0.0.0', port: 1 }), 'http://127.0.0.1:1');
  assert.equal(stackUrl({ host: '::1', port: 1 }), 'http://[::1]:1');
});
