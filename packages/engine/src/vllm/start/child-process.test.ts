import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { describe, test } from 'node:test';
import { until } from '../../until.testing.ts';
import { GroupChild } from './child-process.ts';
import { listProcesses } from './host-facts.ts';

const WAIT_MS = 20_000;
const ENV = { PATH: '/usr/local/bin:/usr/bin:/bin' };
/** A server with a worker that does not want to end. */
const FAMILY = 'sleep 3600 & sh -c \'trap "" TERM; sleep 3600\' & echo up; wait';

async function membersOf(group: number): Promise<number> {
  const processes = await listProcesses();
  // What is dead and not reaped has no command line.
  return processes.filter((each) => each.groupId === group && each.command !== '').length;
}

describe('a child with descendants', () => {
  test('stop ends all of them, those that ignore SIGTERM behind the grace time', async () => {
    const lines: string[] = [];
    const child = await GroupChild.start({
      command: ['/bin/sh', '-c', FAMILY],
      env: ENV,
      graceMs: 300,
      onLine: (line) => lines.push(line),
    });
    await until('it is up', async () => lines.includes('up'));
    await child.stop(300);
    assert.equal(await membersOf(child.pid), 0);
    assert.equal(child.isEnded, true);
  });

  test('one that obeys is not waited for longer than it takes, however its signals fall', async () => {
    for (let round = 0; round < 40; round++) {
      const lines: string[] = [];
      const child = await GroupChild.start({
        command: ['/bin/sh', '-c', 'echo up; exec sleep 3600'],
        env: ENV,
        graceMs: 600_000,
        onLine: (line) => lines.push(line),
      });
      await until('it is up', async () => lines.includes('up'));
      const beganMs = performance.now();
      await child.stop(WAIT_MS);
      assert.ok(performance.now() - beganMs < WAIT_MS, `round ${round} waited for the grace time`);
      assert.equal(await membersOf(child.pid), 0);
    }
  });

  test('the exit code is that of the command', async () => {
    const child = await GroupChild.start({
      command: ['/bin/sh', '-c', 'exit 7'],
      env: ENV,
      graceMs: 1_000,
      onLine: () => {},
    });
    const end = await child.ended;
    await child.stop(0);
    assert.deepEqual(end, { code: 7, signal: null });
  });

  test('a command that is not there says so', async () => {
    const lines: string[] = [];
    const child = await GroupChild.start({
      command: ['/nowhere/vllm'],
      env: ENV,
      graceMs: 1_000,
      onLine: (line) => lines.push(line),
    });
    const end = await child.ended;
    await until('it says why', async () => lines.some((line) => /not found/.test(line)));
    await child.stop(0);
    assert.equal(end.code, 127);
  });
});

describe('no process is left behind', () => {
  const script = `
    import { GroupChild } from ${JSON.stringify(new URL('child-process.ts', import.meta.url).href)};
    const child = await GroupChild.start({
      command: ['/bin/sh', '-c', ${JSON.stringify(FAMILY)}],
      env: process.env,
      graceMs: 1000,
      onLine: () => console.log(child.pid),
    });
    process.on('message', () => process.exit(3));
    process.on('SIGUSR2', () => { throw new Error('unexpected'); });
  `;
  const start = async (): Promise<{ parent: ChildProcess; group: number }> => {
    const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
    });
    assert.ok(parent.stdout);
    const lines = createInterface({ input: parent.stdout });
    const line = await new Promise<string>((resolve) => lines.once('line', resolve));
    return { parent, group: Number(line) };
  };

  for (const [how, end] of [
    ['exits', (parent: ChildProcess) => parent.send('exit')],
    ['fails', (parent: ChildProcess) => parent.kill('SIGUSR2')],
    ['is ended by SIGTERM', (parent: ChildProcess) => parent.kill('SIGTERM')],
    ['is killed', (parent: ChildProcess) => parent.kill('SIGKILL')],
  ] as const) {
    test(`when the parent ${how}`, async () => {
      const { parent, group } = await start();
      assert.ok((await membersOf(group)) >= 3);
      end(parent);
      await until('the group is gone', async () => (await membersOf(group)) === 0);
    });
  }
});
