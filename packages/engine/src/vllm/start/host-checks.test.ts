import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { findLeftovers, type HostFacts, judgeHost } from './host-checks.ts';
import { gatherHostFacts } from './host-facts.ts';

const CLEAN: HostFacts = {
  processes: [
    { pid: 1, parentPid: 0, groupId: 1, command: '/sbin/init' },
    // Started by a service manager: its parent is 1, and it leads its group.
    { pid: 50, parentPid: 1, groupId: 50, command: '/v/bin/python3 /v/bin/vllm serve m --port 1' },
    { pid: 51, parentPid: 50, groupId: 50, command: 'VLLM::EngineCore' },
    { pid: 60, parentPid: 1, groupId: 60, command: 'grep VLLM' },
  ],
  locks: [],
};

test('a clean host has no finding, and a vLLM of a service manager is no leftover', () => {
  assert.deepEqual(judgeHost(CLEAN), []);
});

test('leftovers are named with their pids and how to end their groups', () => {
  const processes = [
    ...CLEAN.processes,
    { pid: 71, parentPid: 1, groupId: 70, command: 'VLLM::EngineCore' },
    { pid: 72, parentPid: 1, groupId: 70, command: 'VLLM::Worker_TP0' },
  ];
  assert.deepEqual(
    findLeftovers(processes).map(({ pid }) => pid),
    [71, 72],
  );
  const [finding] = judgeHost({ ...CLEAN, processes });
  assert.equal(finding?.kind, 'leftover');
  assert.match(finding?.message ?? '', /71 \(VLLM::EngineCore\), 72 \(VLLM::Worker_TP0\)/);
  assert.match(finding?.remedy ?? '', /kill -TERM -- -70 /);
});

test('a busy port and a held lock are one sentence each', () => {
  const findings = judgeHost({
    ...CLEAN,
    port: { host: '127.0.0.1', port: 8000, isBusy: true },
    locks: [{ path: '/hub/.locks/models--a--b/x.lock', pids: [9] }],
  });
  assert.deepEqual(
    findings.map(({ kind }) => kind),
    ['port', 'lock'],
  );
  assert.match(findings[1]?.message ?? '', /locked by process 9 \(\/hub/);
});

test('a driver is judged by the major version of its CUDA', () => {
  const kinds = (gpu: HostFacts['gpu']): string[] =>
    judgeHost({ ...CLEAN, ...(gpu === undefined ? {} : { gpu }) }).map(({ message }) => message);
  const torchCuda = '12.8';
  const isCpuBuild = false;
  assert.deepEqual(
    kinds({ driverVersion: '535.1', driverCuda: '12.2', torchCuda, isCpuBuild }),
    [],
  );
  assert.deepEqual(kinds({ driverVersion: '580.1', torchCuda, isCpuBuild }), []);
  assert.match(
    kinds({ driverVersion: '470.82', torchCuda, isCpuBuild })[0] ?? '',
    /470\.82 runs CUDA 11/,
  );
  assert.match(kinds({ torchCuda, isCpuBuild })[0] ?? '', /no NVIDIA driver/);
  assert.deepEqual(kinds({ torchCuda, isCpuBuild: true }), []);
  assert.deepEqual(kinds({ isCpuBuild }), []);
});

test('facts of this host: processes with parents and groups, and whether a port is taken', async () => {
  const child = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  try {
    const question = { port: { host: '127.0.0.1', port }, env: {} };
    const facts = await gatherHostFacts(question);
    assert.equal(facts.port?.isBusy, true);
    const own = facts.processes.find(({ pid }) => pid === child.pid);
    assert.equal(own?.parentPid, process.pid);
    assert.equal(own?.groupId, child.pid);
    assert.match(own?.command ?? '', /sleep 60/);
    await new Promise((resolve) => server.close(resolve));
    assert.equal((await gatherHostFacts(question)).port?.isBusy, false);
  } finally {
    child.kill('SIGKILL');
    server.close();
  }
});
