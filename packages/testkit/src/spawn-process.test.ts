import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spawnProcess, waitFor } from './index.ts';

const NODE = process.execPath;

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('collects output and tells how it ended', async () => {
  const child = spawnProcess(NODE, {
    args: ['-e', 'console.log("out"); console.error("err"); process.exit(3)'],
  });
  assert.equal(await child.exited, 3);
  await waitFor(
    () => child.output.includes('out') && child.output.includes('err'),
    1_000,
    'output',
  );
});

test('stop asks first and kills what does not listen', async () => {
  const script =
    'process.on("SIGTERM", () => {}); console.log("ready"); setInterval(() => {}, 1e6)';
  const child = spawnProcess(NODE, { args: ['-e', script] });
  await child.waitForOutput(/ready/, 5_000);
  assert.equal(await child.stop(100), 'SIGKILL');
});

test('kill takes the processes along that it started', async () => {
  const script =
    'const c = require("node:child_process").spawn("sleep", ["100"]); console.log("child " + c.pid); setInterval(() => {}, 1e6)';
  const child = spawnProcess(NODE, { args: ['-e', script] });
  const grandchild = Number((await child.waitForOutput(/child (\d+)/, 5_000))[1]);
  assert.ok(isAlive(grandchild));
  await child.kill();
  await waitFor(() => !isAlive(grandchild), 2_000, 'end of the grandchild');
});

test('waiting for output of a process that ended fails with what it wrote', async () => {
  const child = spawnProcess(NODE, { args: ['-e', 'console.log("no use")'] });
  await assert.rejects(child.waitForOutput(/never/, 10_000), /before it ended.*no use/s);
});

test('children end with the process that started them', async () => {
  const kit = new URL('./index.ts', import.meta.url).href;
  const script = `
    const { spawnProcess } = await import(${JSON.stringify(kit)});
    console.log('child ' + spawnProcess('sleep', { args: ['100'] }).pid);
    setInterval(() => {}, 1e6);`;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const parent = spawnProcess(NODE, { args: ['--input-type=module', '-e', script] });
    const pid = Number((await parent.waitForOutput(/child (\d+)/, 5_000))[1]);
    parent.signal(signal);
    assert.equal(await parent.exited, signal);
    await waitFor(() => !isAlive(pid), 2_000, 'end of the child');
  }
});
