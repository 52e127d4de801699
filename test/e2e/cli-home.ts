import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { StackView } from '@busbar/cli';
import { freePort } from '@busbar/testkit';

export const bin = fileURLToPath(new URL('../../packages/cli/bin/busbar.cjs', import.meta.url));

/** One stack of its own: namespace, state folder and port are nobody else's. */
export interface Home {
  /** BUSBAR_STATE_DIR; also for whatever else a test writes. */
  folder: string;
  /** Of its namespace, below `folder`. */
  stateDir: string;
  port: number;
  env: Record<string, string | undefined>;
}

export async function newHome(namespace: string): Promise<Home> {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-cli-'));
  const env: Record<string, string | undefined> = {
    ...process.env,
    BUSBAR_STATE_DIR: folder,
    BUSBAR_NAMESPACE: namespace,
    NO_COLOR: '1',
  };
  delete env['BUSBAR_NATS_URL'];
  return { folder, stateDir: join(folder, namespace), port: await freePort(), env };
}

export function busbar(home: Home, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin, ...args], {
    env: home.env,
    encoding: 'utf8',
    timeout: 90_000,
  });
  return { status, stdout, stderr };
}

export function list(home: Home): StackView {
  return JSON.parse(busbar(home, 'ps', '--json').stdout);
}

/** Whether a process runs that is more than a dead entry waiting to be collected. */
export function runs(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

export async function allGone(pids: readonly number[], withinMs: number): Promise<number[]> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const left = pids.filter(runs);
    if (left.length === 0 || performance.now() > deadline) return left;
    await sleep(50);
  }
}
