import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { test } from 'node:test';
import type { Instance, WorkerLoad } from '@busbar/protocol';
import type { Cluster } from '../clients/cluster.ts';
import { renderStack } from '../commands/ps.ts';
import { decodeInfo } from '../doctor/facts.testing.ts';
import { fakeContext, stackState } from '../testing.ts';
import { viewStack } from './stack-view.ts';
import { STACK_ROLES, type StackProcess, type StackState } from './state.ts';

const { terminal } = fakeContext().context;

function entry(role: StackProcess['role'], id: string, pid: number): StackProcess {
  return {
    role,
    id,
    pid,
    startMark: 's',
    startedAt: '2026-01-01T00:00:00Z',
    logFile: `/l/${id}.log`,
  };
}

const state: StackState = stackState({
  port: 9000,
  natsUrl: 'nats://127.0.0.1:4000',
  processes: [
    { ...entry('nats-server', 'nats-server', 1), port: 4000 },
    entry('decode', 'd-1', 2),
    entry('router', 'r-1', 3),
    entry('frontend', 'f-1', 4),
  ],
});

function instance(role: Instance['role'], id: string, pid: number, host = hostname()): Instance {
  return {
    protocol: 1,
    role,
    id,
    epoch: 1,
    pid,
    host,
    startedAt: '2026-01-01T00:00:00Z',
    adminUrl: `http://127.0.0.1:${pid}`,
    state: 'ready',
    ...(role === 'decode'
      ? {
          worker: decodeInfo,
        }
      : {}),
  };
}

const load: WorkerLoad = {
  epoch: 1,
  state: 'ready',
  running: 3,
  waiting: 1,
  waitingPrefillTokens: 0,
  freeBlocks: 626,
  activeBlocks: 10,
  kvBlocks: 926,
  decodeStepMs: 1,
  prefillTokensPerMs: 1,
  kvSequence: 1,
  storedBlocksTotal: 1,
};

const cluster: Cluster = {
  instances: new Map([
    ['d-1', instance('decode', 'd-1', 2)],
    ['r-1', instance('router', 'r-1', 3)],
    ['d-9', instance('decode', 'd-9', 77, 'elsewhere')],
  ]),
  cards: [],
  loads: new Map([['d-1', load]]),
};

test('a lease gives the state, a dead pid is exited whatever the lease says, others are shown as joined', () => {
  const view = viewStack('ns', state, cluster, (process) => process.id !== 'r-1');
  assert.deepEqual(
    view.processes.map(({ id, state: now, isManaged }) => [id, now, isManaged]),
    [
      ['nats-server', 'running', true],
      ['d-1', 'ready', true],
      ['r-1', 'exited', true],
      ['f-1', 'running', true],
      ['d-9', 'ready', false],
    ],
  );
  assert.equal(view.url, 'http://127.0.0.1:9000');
  assert.equal(view.processes[4]?.host, 'elsewhere');
  assert.equal(view.processes[1]?.running, 3);
  assert.equal(view.processes[2]?.adminUrl, undefined, 'the port of a dead process is not told');
});

test('without NATS the state file still tells pids', () => {
  const view = viewStack('ns', state, undefined, () => true);
  assert.deepEqual(
    view.processes.map((process) => process.state),
    ['running', 'running', 'running', 'running'],
  );
});

test('the table has a line for each process', () => {
  const view = viewStack('ns', state, cluster, () => true);
  const lines = renderStack(view, terminal);
  assert.equal(lines[0], 'namespace ns  http://127.0.0.1:9000');
  assert.match(lines[2] ?? '', /^ROLE +ID +PID +STATE +ADDRESS +MODEL +KV BLOCKS +IN FLIGHT$/);
  assert.match(
    lines.find((line) => line.includes('d-1')) ?? '',
    /^decode +d-1 +2 +ready +http:\/\/127\.0\.0\.1:2 +m +300 of 926 filled +3 \+ 1 waiting$/,
  );
  assert.equal(lines.length, 3 + 5);
});

test('no stack is a sentence', () => {
  assert.match(renderStack(viewStack('ns', undefined, undefined), terminal)[0] ?? '', /busbar up/);
});

test('what is said of `role` names every role', () => {
  const source = readFileSync(new URL('stack-view.ts', import.meta.url), 'utf8');
  const doc = /\/\*\* (.*) \*\/\n {2}role: StackRole;/.exec(source)?.[1] ?? '';
  for (const role of STACK_ROLES) assert.match(doc, new RegExp(`\\b${role}\\b`));
});
