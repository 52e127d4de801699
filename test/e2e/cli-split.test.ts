import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { waitFor } from '@busbar/testkit';
import { allGone, bin, busbar, type Home, list, newHome, runs } from './cli-home.ts';

const WAIT_MS = 60_000;
const MODEL = fileURLToPath(
  new URL('../../packages/tokenizer/models/busbar-small', import.meta.url),
);

function upArgs(home: Home, ...flags: string[]): string[] {
  return [bin, 'up', '--port', String(home.port), ...flags];
}

/** A foreground `up`, and what it has written so far. */
function startUp(home: Home, ...flags: string[]) {
  const child = spawn(process.execPath, upArgs(home, ...flags), {
    env: home.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const seen = { child, output: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => (seen.output += bytes.toString()));
  }
  return seen;
}

function pidOf(home: Home, role: string): number {
  const found = list(home).processes.find((view) => view.role === role);
  assert.ok(found, `a ${role} runs`);
  return found.pid;
}

suite('a stack with prefill workers', async () => {
  const home = await newHome('cli-split');
  after(() => {
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  });

  test('starts, is listed, splits when told to, and leaves nothing behind', async () => {
    const flags = ['--prefill', '2', '--decode', '1', '--disaggregation', 'always'];
    const more = ['--profile', 'instant', '--prefill-kv-blocks', '500,600'];
    const up = busbar(home, ...upArgs(home, '--detach', ...flags, ...more).slice(1));
    assert.equal(up.status, 0, up.stderr);
    assert.match(up.stdout, /prefill-1-\w+ ready: prefills busbar-mock, KV cache of 8,000 tokens/);
    const view = list(home);
    const prefill = view.processes.filter((each) => each.role === 'prefill');
    assert.deepEqual(
      prefill.map(({ kvBlocks, state }) => [kvBlocks, state]),
      [
        [500, 'ready'],
        [600, 'ready'],
      ],
    );
    const router = view.processes.find((each) => each.role === 'router');
    const records = await (await fetch(`${router?.adminUrl}/decisions`)).text();
    assert.match(records, /"cause":"always"/);
    assert.equal(busbar(home, 'down').status, 0);
    const pids = view.processes.map((each) => each.pid);
    assert.deepEqual(await allGone(pids, 2_000), []);
  });

  test('flags that do not fit together start nothing', () => {
    const refused = (...flags: string[]) => busbar(home, ...upArgs(home, ...flags).slice(1));
    const alone = refused('--prefill', '1', '--decode', '0');
    assert.equal(alone.status, 2);
    assert.match(alone.stderr, /serves nobody alone/);
    assert.match(refused('--engine', 'vllm').stderr, /--engine vllm needs --model-path/);
    assert.equal(existsSync(join(home.stateDir, 'state.json')), false);
  });
});

test('a process that dies under a foreground up is told at once, with the end of its log', async () => {
  const home = await newHome('cli-crash');
  const up = startUp(home, '--prefill', '1', '--decode', '1', '--profile', 'instant');
  try {
    await waitFor(() => up.output.includes('Stop with Ctrl-C'), WAIT_MS, 'the stack');
    const pid = pidOf(home, 'prefill');
    process.kill(pid, 'SIGKILL');
    await waitFor(() => up.output.includes('ended with SIGKILL'), 5_000, 'the news');
    const told = up.output.slice(up.output.indexOf('ended with SIGKILL'));
    assert.match(
      up.output,
      new RegExp(
        `prefill-1-\\w+ \\(pid ${pid}\\) ended with SIGKILL; the end of .*prefill-1\\.log:\n {2}\\{.*`,
      ),
    );
    assert.match(told, /It is not started again/);
  } finally {
    const exited = once(up.child, 'exit');
    up.child.kill('SIGINT');
    await exited;
    rmSync(home.folder, { recursive: true, force: true });
  }
});

test('a second Ctrl-C ends a running stream with an error, not with a cut', async () => {
  const home = await newHome('cli-hurry');
  const up = startUp(home, '--decode', '1', '--mock-speed', '0.05');
  try {
    await waitFor(() => up.output.includes('Stop with Ctrl-C'), WAIT_MS, 'the stack');
    const response = await fetch(`http://127.0.0.1:${home.port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'busbar-mock',
        stream: true,
        max_tokens: 2_000,
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    });
    const text = response.text();
    up.child.kill('SIGINT');
    await waitFor(() => up.output.includes('Running requests may finish'), WAIT_MS, 'the wait');
    const exited = once(up.child, 'exit');
    up.child.kill('SIGINT');
    assert.match(await text, /"error":\{.*\[DONE\]\s*$/s);
    assert.deepEqual((await exited)[0], 0);
    assert.doesNotMatch(up.output, /Killed/);
  } finally {
    up.child.kill('SIGKILL');
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  }
});

test('what a killed worker leaves of its engine is ended with the stack', {
  skip: process.platform !== 'linux' && 'reads /proc',
}, async () => {
  const home = await newHome('cli-leftover');
  // Stands for an engine that never gets ready and ignores SIGTERM.
  const command = join(home.folder, 'engine');
  const mark = join(home.folder, 'pid');
  writeFileSync(
    command,
    `#!/bin/sh\ncase "$*" in *--version*) exit 1;; esac\ntrap '' TERM\necho $$ > ${mark}\nwhile :; do sleep 0.1; done\n`,
  );
  chmodSync(command, 0o755);
  const flags = ['--engine', 'vllm', '--model-path', MODEL, '--vllm-command', command];
  const up = startUp(home, '--decode', '1', ...flags);
  try {
    await waitFor(
      () => existsSync(mark) && readFileSync(mark, 'utf8').trim(),
      WAIT_MS,
      'the engine',
    );
    const engine = Number(readFileSync(mark, 'utf8'));
    await waitFor(() => /decode-1-\w+: vllm \w+: /.test(up.output), WAIT_MS, 'the phase');
    await waitFor(
      () => readFileSync(join(home.stateDir, 'state.json'), 'utf8').includes(`"pid": ${engine},`),
      WAIT_MS,
      'the note of the engine',
    );
    const worker = pidOf(home, 'decode');
    // The worker's own guard dies with it, as under the memory killer.
    for (const pid of [...groupOf(engine).filter((each) => each !== engine), worker]) {
      process.kill(pid, 'SIGKILL');
    }
    await once(up.child, 'exit');
    assert.match(up.output, /decode-1-\w+ \(pid \d+\) ended with SIGKILL/);
    assert.equal(runs(engine), false, 'the engine was ended as well');
  } finally {
    up.child.kill('SIGKILL');
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  }
});

/** Every process of the group that this one is in. */
function groupOf(pid: number): number[] {
  const group = statOf(pid)?.[2];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && statOf(Number(name))?.[2] === group)
    .map(Number);
}

function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
