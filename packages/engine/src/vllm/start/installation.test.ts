import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { gatherHostFacts } from './host-facts.ts';
import { findInstallation } from './installation.ts';

const root = realpathSync(mkdtempSync(join(tmpdir(), 'busbar-installation-')));
after(() => rmSync(root, { recursive: true }));

function write(path: string, text: string, mode = 0o755): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

/** No text, as compiled programs are. */
const program = (path: string): string => write(path, '\x7fELF\0');

function link(path: string, target: string): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  symlinkSync(target, file);
  return file;
}

/** A virtual environment; its interpreter is a link to one elsewhere, and without a version it holds other packages only. */
function environment(
  name: string,
  version?: string,
  library = 'lib/python3.12/site-packages',
): string {
  const python = link(`${name}/bin/python3`, program(`${name}.base/bin/python3.12`));
  write(`${name}/pyvenv.cfg`, '');
  write(`${name}/bin/vllm`, `#!${python}\nimport sys\n`);
  write(`${name}/${library}/torch/version.py`, "cuda = '12.8'\n");
  if (version !== undefined) mkdirSync(join(root, name, library, `vllm-${version}.dist-info`));
  return join(root, name);
}

const own = environment('venv', '0.32.0');
const other = environment('other', '0.29.1');
const none = environment('none');
// As Debian's /usr: programs beside a Python that knows nothing of vLLM.
const usr = join(root, 'usr');
for (const name of ['nice', 'numactl', 'env', 'bash']) program(`usr/bin/${name}`);
for (const name of ['uv', 'conda', 'docker']) program(`usr/bin/${name}`);
write('usr/lib/python3.11/site-packages/torch/version.py', "cuda = '11.8'\n");

const envOf = (...folders: string[]) => ({
  PATH: [...folders.map((folder) => join(folder, 'bin')), join(usr, 'bin')].join(':'),
  HOME: join(root, 'home'),
});
const env = envOf(none, own);
const versionOf = async (command: readonly string[], given: Record<string, string> = envOf(own)) =>
  (await findInstallation(command, given))?.version;

test('a wrapper before the program does not hide it', async () => {
  const vllm = join(own, 'bin/vllm');
  for (const command of [
    ['vllm'],
    [vllm],
    ['nice', '-n', '10', vllm],
    ['numactl', '--cpunodebind=0', 'vllm'],
    ['nice', 'numactl', '-m', '0', 'vllm'],
    ['env', 'A=1', '--', 'vllm'],
    [join(own, 'bin/python3'), '-m', 'vllm.entrypoints.cli.main'],
    ['nice', 'python3', '-m', 'vllm.entrypoints.cli.main'],
  ]) {
    assert.equal(await versionOf(command), '0.32.0', command.join(' '));
  }
  assert.equal(await versionOf(['env', `PATH=${own}/bin`, 'vllm'], envOf(other)), '0.32.0');
});

test('the first word that leads to a vLLM counts, but an interpreter takes its own or none', async () => {
  assert.equal(await versionOf([`${none}/bin/vllm`, `${own}/bin/vllm`]), '0.32.0');
  assert.equal(await versionOf([`${other}/bin/python3`, `${own}/bin/vllm`]), '0.29.1');
  assert.equal(await versionOf([`${none}/bin/python3`, `${own}/bin/vllm`]), undefined);
  assert.equal(await versionOf(['nice', `${none}/bin/vllm`]), undefined);
  assert.equal(await versionOf(['nice', 'absent']), undefined);
  assert.equal(await versionOf(['vllm'], env), undefined, 'what PATH finds first is what runs');
});

test('links, entry points and folders as installers make them', async () => {
  assert.equal(await versionOf([link('home/pipx/vllm', join(own, 'bin/vllm'))]), '0.32.0');
  // Paths that are too long for a first line.
  const long = `#!/bin/sh\n'''exec' "${own}/bin/python3" "$0" "$@"\n' '''\nimport sys\n`;
  assert.equal(await versionOf([write('elsewhere/vllm', long)]), '0.32.0');
  const named = write('named/vllm', '#!/usr/bin/env python3\n');
  assert.equal(await versionOf([named]), '0.32.0');
  for (const library of ['lib/python3.12/dist-packages', 'lib64/python3.12/site-packages']) {
    const name = library.slice(0, 5).replace('/', '');
    assert.equal(await versionOf([`${environment(name, '0.31.2', library)}/bin/vllm`]), '0.31.2');
  }
  // Without an environment: the user's packages, of the same Python only.
  const python = program('plain/bin/python3.12');
  write('home/.local/lib/python3.12/site-packages/vllm-0.30.1.dist-info/METADATA', '');
  assert.equal(await versionOf([python, '-m', 'vllm']), '0.30.1');
  assert.equal(await versionOf([program('plain/bin/python3.11'), '-m', 'vllm']), undefined);
});

test('a shell script is followed to the one vLLM that it names', async () => {
  let at = 0;
  const script = (...lines: string[]): string =>
    write(`scripts/${at++}.sh`, ['#!/usr/bin/env bash', ...lines, ''].join('\n'), 0o644);
  const runs = script(`# not ${other}/bin/vllm`, 'export A=1', `exec "${own}/bin/vllm" "$@"`);
  assert.equal(await versionOf([runs]), '0.32.0');
  assert.equal(await versionOf(['nice', 'bash', runs]), '0.32.0');
  assert.equal(await versionOf([script(`exec ${root}/absent/vllm "$@"`)]), undefined);
  const activates = script(`source ${own}/bin/activate`, 'exec vllm "$@"');
  write('venv/bin/activate', '', 0o644);
  assert.equal(await versionOf([activates], envOf(other)), '0.32.0');
  const home = script('exec ${HOME}/venv/bin/vllm "$@"');
  assert.equal(await versionOf([home], { ...env, HOME: root }), '0.32.0');
  // What it runs cannot be told.
  for (const lines of [
    [`if x; then exec ${own}/bin/vllm "$@"; fi`, `exec ${other}/bin/vllm "$@"`],
    ['exec $LAB/venv/bin/vllm "$@"'],
    ['exec vllm "$@"'],
  ]) {
    assert.equal(await versionOf([script(...lines)]), undefined, lines.join('; '));
  }
  assert.equal(await versionOf([script('export A=1', 'exec "$@"'), 'vllm']), '0.32.0');
  assert.equal(await versionOf([script('module load x', 'exec "$@"'), 'vllm']), undefined);
  assert.equal(await versionOf([script('PATH=/x exec "$@"'), join(own, 'bin/vllm')]), '0.32.0');
});

test('a script given as a word is read as one; the word behind it is only a name', async () => {
  const there = join(other, 'bin/vllm');
  for (const [words, version] of [
    [['-c', `exec ${there} "$@"`, 'vllm'], '0.29.1'],
    [['-ec', `source ${join(other, 'bin/activate')}; exec vllm "$@"`, 'vllm'], '0.29.1'],
    [['-c', 'exec vllm "$@"', 'vllm'], '0.32.0'],
    [['-lc', 'exec vllm "$@"', 'vllm'], undefined],
    [['-c', 'conda activate x; exec vllm "$@"', 'vllm'], undefined],
    [['-c', 'exec "$VENV/bin/vllm" "$@"', 'vllm'], undefined],
    [['-c'], undefined],
  ] as const) {
    assert.equal(await versionOf(['bash', ...words]), version, words.join(' '));
  }
});

test('scripts that name each other come to an end', async () => {
  const a = join(root, 'loop/a/vllm');
  const b = write('loop/b/vllm', `#!/bin/sh\nexec ${a} "$@"\n`);
  write('loop/a/vllm', `#!/bin/sh\nexec ${b} "$@"\n`);
  assert.equal(await versionOf([a]), undefined);
});

test('behind what has an environment of its own, a name means nothing here', async () => {
  for (const command of [
    ['conda', 'run', '-n', 'vllm', 'vllm'],
    ['uvx', 'vllm'],
    ['docker', 'run', 'image', join(own, 'bin/vllm')],
  ]) {
    assert.equal(await versionOf(command), undefined, command.join(' '));
  }
  assert.equal(await versionOf(['conda', 'run', join(own, 'bin/vllm')]), '0.32.0');
});

test('"uv run" takes the environment of the project', async () => {
  const given = { ...envOf(other), UV_PROJECT_ENVIRONMENT: own };
  assert.equal(await versionOf(['uv', 'run', 'vllm'], given), '0.32.0');
  assert.equal(await versionOf(['nice', 'uv', 'run', '--frozen', 'vllm'], given), '0.32.0');
  assert.equal(await versionOf(['uv', 'run', '--with', 'vllm', 'vllm'], given), undefined);
  assert.equal(await versionOf(['uv', 'tool', 'run', 'vllm'], given), undefined);
});

test('"uv run" looks for the project from the working folder upwards', async () => {
  environment('project/.venv', '0.33.0');
  mkdirSync(join(root, 'project/deep/er'), { recursive: true });
  const before = process.cwd();
  try {
    process.chdir(join(root, 'project/deep/er'));
    assert.equal(await versionOf(['uv', 'run', 'vllm'], envOf(other)), '0.33.0');
  } finally {
    process.chdir(before);
  }
});

test('CUDA is that of the vLLM behind the wrapper, and of none when that is not known', async () => {
  const look = (command: string[]) => gatherHostFacts({ command, env: envOf(own) });
  const wrapped = await look(['nice', '-n', '10', 'vllm']);
  assert.deepEqual([wrapped.vllmVersion, wrapped.gpu?.torchCuda], ['0.32.0', '12.8']);
  const unknown = await look(['nice', '-n', '10']);
  assert.deepEqual([unknown.vllmVersion, unknown.gpu?.torchCuda], [undefined, undefined]);
});
