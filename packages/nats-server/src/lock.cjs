'use strict';
const { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } = require('node:fs');
const { dirname } = require('node:path');

const POLL_MS = 200;
/** A lock whose owner lives but has held it for longer belongs to a process that hangs. */
const STALE_MS = 15 * 60_000;

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function tryTake(file) {
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/** The pid in the lock file, or undefined when its owner is gone (or the file is). */
function liveOwner(file) {
  try {
    const ageMs = Date.now() - statSync(file).mtimeMs;
    const pid = Number(readFileSync(file, 'utf8'));
    // An empty file is one that its owner is just writing.
    if (!pid) return ageMs < 5_000 ? 0 : undefined;
    return isAlive(pid) && ageMs < STALE_MS ? pid : undefined;
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Removes a lock whose owner is gone. Of several processes that see it at once, one rename succeeds. */
function removeStale(file) {
  const aside = `${file}.${process.pid}.stale`;
  try {
    renameSync(file, aside);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  if (liveOwner(aside) === undefined) rmSync(aside, { force: true });
  else renameSync(aside, file);
}

/**
 * Runs `work` while no other process holds the lock `file`. A lock left by a dead process is taken over.
 * `onWait(pid)` is called once when another process is in the way. Rejects when that takes over 15 minutes.
 */
async function withLock(file, work, onWait = () => {}) {
  mkdirSync(dirname(file), { recursive: true });
  const deadline = Date.now() + STALE_MS;
  let told = false;
  while (!tryTake(file)) {
    const owner = liveOwner(file);
    if (owner === undefined) {
      removeStale(file);
      continue;
    }
    if (Date.now() > deadline)
      throw new Error(`${file} is held by process ${owner}; end it or remove the file`);
    if (!told) onWait(owner);
    told = true;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  try {
    return await work();
  } finally {
    rmSync(file, { force: true });
  }
}

module.exports = { withLock };
