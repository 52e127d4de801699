'use strict';
// Makes a fresh clone ready: dependencies, then nats-server. Runs on any Node from 20 on, before anything is installed.
// `npm start` and `npm test` call it first; with nothing to do it takes a few milliseconds and prints nothing.
const { spawn } = require('node:child_process');
const { existsSync, readFileSync } = require('node:fs');
const { join } = require('node:path');
const { ensureNatsServer, NatsServerError } = require('../packages/nats-server/src/finder.cjs');
const { withLock } = require('../packages/nats-server/src/lock.cjs');

const ROOT = join(__dirname, '..');
const OLDEST_NODE = 20;
const startedMs = Date.now();

function say(line) {
  const seconds = ((Date.now() - startedMs) / 1000).toFixed(1);
  process.stderr.write(`busbar setup ${seconds.padStart(5)}s  ${line}\n`);
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * True when npm's record of node_modules has every package of package-lock.json at its version. npm writes the record
 * at the end of an installation, so a broken-off one is seen.
 */
function isInstalled() {
  const wanted = readJson(join(ROOT, 'package-lock.json'))?.packages;
  const present = readJson(join(ROOT, 'node_modules', '.package-lock.json'))?.packages;
  if (!wanted || !present) return false;
  for (const [path, { version, optional, link }] of Object.entries(wanted)) {
    if (!path.startsWith('node_modules/')) continue;
    if (link) {
      if (!existsSync(join(ROOT, path))) return false;
      continue;
    }
    const have = present[path];
    // Optional packages of other platforms are in the lock, but not on the disk.
    if (have === undefined && optional) continue;
    if (have?.version !== version) return false;
  }
  return existsSync(join(ROOT, 'node_modules', '.bin', 'node'));
}

function npm(args) {
  return new Promise((resolve, reject) => {
    const cli = process.env.npm_execpath;
    const options = { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] };
    const child = cli
      ? spawn(process.execPath, [cli, ...args], options)
      : spawn(process.platform === 'win32' ? 'npm.cmd' : 'npm', args, options);
    let output = '';
    const collect = (chunk) => {
      output = (output + chunk).slice(-20_000);
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(undefined);
      else reject(new Error(`npm ${args[0]} ended with ${code}\n${output}`));
    });
  });
}

async function ensureDependencies() {
  if (isInstalled()) return;
  await withLock(
    join(ROOT, '.busbar', 'setup.lock'),
    async () => {
      if (isInstalled()) return;
      const fresh = !existsSync(join(ROOT, 'node_modules'));
      const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
      say('installing dependencies (npm; about a minute the first time)');
      // `npm ci` removes node_modules first: right for a fresh clone, wrong under a process that runs from it.
      if (fresh) await npm(['ci', ...quiet]).catch(() => npm(['install', ...quiet]));
      else await npm(['install', ...quiet]);
      say('dependencies installed');
    },
    (pid) => say(`waiting for process ${pid}, which installs dependencies`),
  );
}

async function ensureServer() {
  // Tests start servers of their own, so they need the binary even beside a given one.
  const testing = process.env.npm_lifecycle_event === 'pretest';
  if (process.env.BUSBAR_NATS_URL && !testing) return;
  const server = await ensureNatsServer({ log: say });
  if (server.source === 'installed') say(`nats-server ${server.version} ready at ${server.path}`);
}

async function main() {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < OLDEST_NODE) {
    throw new Error(
      `Node ${process.versions.node} is too old to set Busbar up: ${OLDEST_NODE} or newer is needed.`,
    );
  }
  await ensureDependencies();
  await ensureServer();
}

main().catch((error) => {
  say(error instanceof NatsServerError ? error.message : `failed: ${error.message}`);
  process.exitCode = 1;
});
