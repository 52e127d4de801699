import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { freePort } from '../host/ports.ts';
import { markOf } from '../host/process-table.ts';
import { type StackState, stateFile, writeState } from '../stack/state.ts';
import { fakeContext, stackState } from '../testing.ts';
import { runCli } from './run.ts';

async function run(args: string[], env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-run-'));
  const fake = fakeContext({ env: { BUSBAR_STATE_DIR: folder, ...env } });
  const exitCode = await runCli(fake.context, args, '9.9.9', folder);
  rmSync(folder, { recursive: true });
  return { exitCode, out: fake.out(), err: fake.err() };
}

test('--version and --help end with 0', async () => {
  assert.deepEqual(await run(['--version']), { exitCode: 0, out: '9.9.9\n', err: '' });
  const commands = ['up', 'down', 'ps', 'chat', 'events', 'doctor'];
  const { out, exitCode } = await run(['--help']);
  assert.equal(exitCode, 0);
  for (const command of [...commands, 'simulate'])
    assert.match(out, new RegExp(`^  ${command} `, 'm'));
  for (const command of commands) {
    const help = await run([command, '--help']);
    assert.equal(help.exitCode, 0);
    assert.match(help.out, new RegExp(`Usage: busbar ${command}`));
    assert.match(help.out, /Examples:\n {2}\$ busbar/);
  }
});

test('no arguments show the help', async () => {
  const { out, exitCode } = await run([]);
  assert.equal(exitCode, 0);
  assert.match(out, /Usage: busbar/);
});

test('wrong usage ends with 2 and a suggestion', async () => {
  const cases: [string[], RegExp][] = [
    [['upp'], /unknown command 'upp'\n\(Did you mean up\?\)/],
    [['up', '--decod', '3'], /Did you mean --decode\?\)\nHelp: busbar up --help\n$/],
    [['help'], /unknown command 'help'\nHelp: busbar --help\n$/],
    [['up', '--decode'], /argument missing/],
    [['up', '--policy', 'random2'], /did you mean random\?/],
    [['up', 'extra'], /too many arguments/],
    [['ps', '--jsn'], /Did you mean --json\?/],
    [['down', '--namespace', 'A B'], /cannot be a namespace/],
    [['events', '--kind', 'worker.join'], /did you mean worker\.joined\?/],
  ];
  for (const [args, message] of cases) {
    const { exitCode, err } = await run(args);
    assert.equal(exitCode, 2, args.join(' '));
    assert.match(err, message);
  }
  const { exitCode, err } = await run(['up'], { BUSBAR_POLICI: 'kv' });
  assert.equal(exitCode, 2);
  assert.match(err, /did you mean BUSBAR_POLICY\?/);
});

test('a variable with a wrong value is named with the value', async () => {
  const port = String(await freePort('127.0.0.1'));
  const cases: [Record<string, string>, RegExp][] = [
    [{ BUSBAR_DRAIN_MS: '3 s' }, /BUSBAR_DRAIN_MS takes .* milliseconds, not "3 s"/],
    [{ BUSBAR_NATS_URL: 'foo://' }, /BUSBAR_NATS_URL must be .* such as nats:.*, not "foo:\/\/"/],
    [{ BUSBAR_NATS_URL: '127.0.0.1:4222' }, /must be .* such as nats:\/\//],
  ];
  for (const [env, message] of cases) {
    const { exitCode, err } = await run(['up', '--detach', '--port', port], env);
    assert.equal(exitCode, 2);
    assert.match(err, message);
  }
});

test('up on a taken port says who holds it and starts nothing', async () => {
  const server = createServer();
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
  });
  const { exitCode, err, out } = await run(['up', '--port', String(port)]);
  server.close();
  assert.equal(exitCode, 1);
  assert.match(err, new RegExp(`port ${port} on 127.0.0.1 is held by`));
  if (process.platform === 'linux') assert.match(err, new RegExp(`pid ${process.pid}`));
  assert.equal(out, '');
});

test('up with a NATS that is not there says so and leaves nothing behind', async () => {
  const { exitCode, err } = await run(
    ['up', '--detach', '--port', String(await freePort('127.0.0.1'))],
    {
      BUSBAR_NATS_URL: 'nats://127.0.0.1:1',
    },
  );
  assert.equal(exitCode, 1);
  assert.match(err, /BUSBAR_NATS_URL is nats:\/\/127\.0\.0\.1:1, and nothing answers there/);
});

test('without a stack: down and ps succeed, events and doctor fail with what to do', async () => {
  const down = await run(['down']);
  assert.equal(down.exitCode, 0);
  assert.match(down.out, /No stack runs/);
  const ps = await run(['ps', '--json']);
  assert.equal(ps.exitCode, 0);
  assert.deepEqual(JSON.parse(ps.out), {
    namespace: 'default',
    url: null,
    natsUrl: null,
    processes: [],
  });
  const events = await run(['events']);
  assert.equal(events.exitCode, 1);
  assert.match(events.err, /busbar up/);
});

test('without a stack, chat does not talk to the one of another namespace', async () => {
  const { exitCode, err, out } = await run(['chat', 'Hello', '--namespace', 'second']);
  assert.equal(exitCode, 1);
  assert.equal(out, '');
  assert.match(err, /no stack of namespace second .*"busbar up --namespace second".* --url/);
});

test('what to do names the namespace when it is not the usual one', async () => {
  const ps = await run(['ps'], { BUSBAR_NAMESPACE: 'second' });
  assert.match(ps.out, /"busbar up --namespace second"/);
  assert.match((await run(['ps'])).out, /"busbar up"/);
  const down = await run(['down', '--namespace', 'second']);
  assert.match(down.out, /No stack runs in namespace second/);
});

/** The state of a stack whose one process is this one, which nothing here may signal. */
function stateOf(namespace: string, port: number): StackState {
  return stackState({
    namespace,
    port,
    natsUrl: 'nats://127.0.0.1:1',
    processes: [{ role: 'router', id: 'r', ...markOf(process.pid)!, startedAt: '' }],
  });
}

test('below one BUSBAR_STATE_DIR, a stack of one namespace is not that of another', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-run-'));
  const env = { BUSBAR_STATE_DIR: folder };
  mkdirSync(join(folder, 'default'));
  writeState(join(folder, 'default'), stateOf('default', await freePort('127.0.0.1')));
  try {
    const down = await run(['down', '--namespace', 'two'], env);
    assert.deepEqual([down.exitCode, down.err], [0, '']);
    assert.match(down.out, /No stack runs in namespace two/);
    assert.equal(existsSync(stateFile(join(folder, 'default'))), true);

    const port = String(await freePort('127.0.0.1'));
    const rest = { ...env, BUSBAR_NATS_URL: 'nats://127.0.0.1:1' };
    const same = await run(['up', '--detach', '--port', port], rest);
    assert.match(same.err, /already running \(namespace default/);
    const other = await run(['up', '--detach', '--namespace', 'two', '--port', port], rest);
    assert.match(other.err, /nothing answers there/, 'it got as far as NATS');

    // A folder that somebody renamed.
    mkdirSync(join(folder, 'three'));
    writeState(join(folder, 'three'), stateOf('default', 1));
    const renamed = await run(['down', '--namespace', 'three'], env);
    assert.match(renamed.out, /No stack runs in namespace three/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('up with a state folder that cannot be made says so and ends', async () => {
  const env = { BUSBAR_STATE_DIR: import.meta.filename };
  const { exitCode, err } = await run(
    ['up', '--detach', '--port', String(await freePort('127.0.0.1'))],
    env,
  );
  assert.equal(exitCode, 1);
  assert.match(
    err,
    /^busbar: the folder .* cannot hold the state of a stack: .*BUSBAR_STATE_DIR.*\n$/,
  );
});

test('the help of up says where state and logs are', async () => {
  assert.match((await run(['up', '--help'])).out, /BUSBAR_STATE_DIR/);
});
