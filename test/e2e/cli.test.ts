import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Diagnosis } from '@busbar/cli';
import { waitFor } from '@busbar/testkit';
import { allGone, bin, busbar, type Home, list, newHome, runs } from './cli-home.ts';

const SCHED_OTHER = 0;
const SCHED_BATCH = 3;
const hasChrt =
  process.platform === 'linux' && spawnSync('chrt', ['--batch', '0', 'true']).status === 0;
const DECODE = fileURLToPath(new URL('../../services/decode/src/main.ts', import.meta.url));

/** The different scheduling policies of a process's threads, from field 41 of their `stat`. */
function threadPolicies(pid: number): number[] {
  const policies = readdirSync(`/proc/${pid}/task`).map((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]);
  });
  return [...new Set(policies)];
}

suite('a detached stack', async () => {
  const home = await newHome('cli-one');
  after(() => {
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  });
  let pids: number[] = [];

  test('up returns when it answers, and tells its phases', () => {
    const flags = [
      '--detach',
      '--port',
      String(home.port),
      '--frontends',
      '2',
      '--profile',
      'instant',
    ];
    const { status, stdout, stderr } = busbar(home, 'up', ...flags);
    assert.equal(status, 0, stderr);
    const phases = [
      /nats-server \d/,
      /router-1-\w+ ready/,
      /KV cache of 14,816 tokens/,
      /answers on/,
    ];
    for (const phase of phases) assert.match(stdout, phase);
    assert.ok(stdout.includes(`curl -N http://127.0.0.1:${home.port}/v1/chat/completions`));
  });

  test('ps --json accounts every process', () => {
    const view = list(home);
    const roles = view.processes.map((process) => process.role).toSorted();
    assert.deepEqual(roles, ['decode', 'decode', 'frontend', 'frontend', 'nats-server', 'router']);
    for (const { state, role, pid } of view.processes) {
      assert.equal(state, role === 'nats-server' ? 'running' : 'ready');
      assert.ok(runs(pid));
    }
    assert.equal(view.namespace, 'cli-one');
    assert.equal(view.url, `http://127.0.0.1:${home.port}`);
    const workers = view.processes.filter((process) => process.role === 'decode');
    for (const worker of workers) {
      assert.deepEqual([worker.model, worker.kvBlocks, worker.blockSize], ['busbar-mock', 926, 16]);
    }
    pids = view.processes.map((process) => process.pid);
  });

  test('who passes messages on interrupts nobody, and workers are scheduled as ever', {
    skip: !hasChrt && 'no chrt',
  }, () => {
    for (const { role, pid } of list(home).processes) {
      const wanted = role === 'decode' ? SCHED_OTHER : SCHED_BATCH;
      assert.deepEqual(threadPolicies(pid), [wanted], role);
    }
  });

  test('a client gets an answer, and so does busbar chat', async () => {
    const response = await fetch(`http://127.0.0.1:${home.port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'busbar-mock',
        messages: [{ role: 'user', content: 'Hello' }],
        max_tokens: 8,
      }),
    });
    assert.equal(response.status, 200);
    const quick = busbar(home, 'chat', '--quick');
    assert.equal(quick.status, 0, quick.stderr);
    assert.ok(quick.stdout.trim().length > 10);
  });

  test('doctor finds nothing wrong', () => {
    const { status, stdout } = busbar(home, 'doctor', '--json');
    const diagnosis: Diagnosis = JSON.parse(stdout);
    assert.deepEqual(
      diagnosis.findings.filter((finding) => finding.verdict === 'fail'),
      [],
    );
    assert.equal(status, 0);
    assert.match(
      diagnosis.findings.find((finding) => finding.group === 'prefix cache')?.detail ?? '',
      /^1,4\d\d of 1,4\d\d prompt tokens came from the cache; first token after/,
    );
  });

  test('a second stack is refused with what to do', () => {
    const second = busbar(home, 'up', '--detach', '--port', String(home.port + 1));
    assert.equal(second.status, 1);
    assert.match(second.stderr, /already running .*busbar down/);
    const elsewhere: Home = { ...home, env: { ...home.env, BUSBAR_STATE_DIR: `${home.folder}/x` } };
    const port = busbar(elsewhere, 'up', '--detach', '--port', String(home.port));
    assert.equal(port.status, 1);
    assert.match(port.stderr, new RegExp(`port ${home.port} on 127.0.0.1 is held by`));
  });

  test('another namespace below the same folder neither sees nor ends it', () => {
    const other: Home = { ...home, env: { ...home.env, BUSBAR_NAMESPACE: 'cli-other' } };
    assert.deepEqual(list(other).processes, []);
    assert.match(busbar(other, 'down').stdout, /No stack runs in namespace cli-other/);
    const own = busbar(other, 'up', '--detach', '--port', String(home.port));
    assert.match(own.stderr, /is held by the stack of namespace cli-one/);
    assert.deepEqual(pids.filter(runs), pids);
  });

  test('a process that crashed is shown, by ps and by doctor', () => {
    const worker = list(home).processes.find((process) => process.role === 'decode');
    assert.ok(worker);
    process.kill(worker.pid, 'SIGKILL');
    const seen = list(home).processes.find((process) => process.id === worker.id);
    assert.equal(seen?.state, 'exited');
    const { status, stdout } = busbar(home, 'doctor');
    assert.equal(status, 1);
    assert.match(stdout, new RegExp(`✗ ${worker.id}: pid ${worker.pid} has ended`));
  });

  test('down leaves no process and no state, names who joined by hand, and is idempotent', async (t) => {
    const joined = spawn(process.execPath, [DECODE], {
      env: { ...home.env, BUSBAR_NATS_URL: list(home).natsUrl ?? '', BUSBAR_ID: 'by-hand' },
      stdio: 'ignore',
    });
    t.after(() => joined.kill('SIGKILL'));
    await waitFor(
      () => list(home).processes.some(({ id, state }) => id === 'by-hand' && state === 'ready'),
      60_000,
      'the worker that joins',
    );
    const { status, stdout } = busbar(home, 'down');
    assert.equal(status, 0);
    assert.match(
      stdout,
      new RegExp(`^Still here, started by someone else: by-hand \\(pid ${joined.pid} `, 'm'),
    );
    assert.ok(stdout.indexOf('frontend-1') < stdout.indexOf('router-1'));
    assert.ok(stdout.indexOf('router-1') < stdout.indexOf('nats-server'));
    assert.deepEqual(await allGone(pids, 1_000), []);
    assert.equal(existsSync(join(home.stateDir, 'state.json')), false);
    assert.equal(busbar(home, 'down').status, 0);
    assert.deepEqual(list(home).processes, []);
  });
});

test('doctor fails when KV events are off, and says so', async () => {
  const home = await newHome('cli-two');
  try {
    const flags = [
      '--detach',
      '--port',
      String(home.port),
      '--no-kv-events',
      '--profile',
      'instant',
    ];
    assert.equal(busbar(home, 'up', ...flags).status, 0);
    const { status, stdout } = busbar(home, 'doctor');
    assert.equal(status, 1);
    assert.match(stdout, /✗ decode-1-\w+: the engine runs without KV events/);
    assert.match(stdout, /→ start it with KV events on/);
  } finally {
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  }
});

test('a start that fails shows the log of the process and leaves nothing behind', async () => {
  const home = await newHome('cli-three');
  try {
    const env = { ...home.env, BUSBAR_ADMIN_HOST: '203.0.113.1' };
    const { status, stderr } = busbar(
      { ...home, env },
      'up',
      '--detach',
      '--port',
      String(home.port),
    );
    assert.equal(status, 1);
    assert.match(stderr, /ended with exit code 1; the end of .*\.log:/);
    assert.match(stderr, /Admin port: 203\.0\.113\.1 is no address of this machine/);
    assert.deepEqual(list(home).processes, []);
  } finally {
    rmSync(home.folder, { recursive: true, force: true });
  }
});

for (const [signal, endedBy] of [
  ['SIGKILL', 'its guard'],
  ['SIGINT', 'itself'],
] as const) {
  test(`a foreground stack that gets ${signal} is taken down by ${endedBy}`, async () => {
    const home = await newHome(`cli-${signal.toLowerCase()}`);
    const up = spawn(process.execPath, [bin, 'up', '--port', String(home.port), '--decode', '1'], {
      env: home.env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      let output = '';
      up.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      const deadline = performance.now() + 60_000;
      while (!output.includes('Stop with Ctrl-C') && performance.now() < deadline) await sleep(50);
      const view = list(home);
      const roles = view.processes.map((process) => process.role);
      assert.ok(roles.includes('supervisor') && roles.includes('guard'), roles.join());
      const exited = once(up, 'exit');
      up.kill(signal);
      const [code] = await exited;
      if (signal === 'SIGINT') {
        assert.equal(code, 0);
        assert.match(output, /Stopped\.\n$/);
      }
      const pids = view.processes.map((process) => process.pid);
      assert.deepEqual(await allGone(pids, 10_000), []);
      assert.equal(existsSync(join(home.stateDir, 'state.json')), false);
    } finally {
      up.kill('SIGKILL');
      busbar(home, 'down');
      rmSync(home.folder, { recursive: true, force: true });
    }
  });
}

test('a signal to npm start alone, as a process manager sends it, ends the stack', async () => {
  const home = await newHome('cli-npm');
  const flags = ['--port', String(home.port), '--decode', '1', '--profile', 'instant'];
  const npm = spawn('npm', ['start', '--', ...flags], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: home.env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    let output = '';
    npm.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const deadline = performance.now() + 60_000;
    while (!output.includes('Stop with Ctrl-C') && performance.now() < deadline) await sleep(50);
    const pids = list(home).processes.map((process) => process.pid);
    assert.ok(pids.length > 0, output);
    npm.kill('SIGTERM');
    assert.deepEqual(await allGone(pids, 10_000), []);
    assert.equal(existsSync(join(home.stateDir, 'state.json')), false);
  } finally {
    npm.kill('SIGKILL');
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  }
});
