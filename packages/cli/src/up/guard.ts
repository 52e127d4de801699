import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { assert } from '@busbar/base';
import { markOf } from '../host/process-table.ts';
import type { StackProcess } from '../stack/state.ts';

const CLI_VARIABLE = 'BUSBAR_STATE_DIR';

/**
 * Starts a shell that waits until this process is gone, by whatever death, and then runs `busbar down`. It holds the reading end
 * of a pipe whose only writing end is here: the system closes that one even after SIGKILL.
 */
export function startGuard(options: {
  node: string;
  stateDir: string;
  namespace: string;
  env: Readonly<Record<string, string | undefined>>;
}): StackProcess {
  const main = fileURLToPath(new URL('../main.ts', import.meta.url));
  const script = 'cat >/dev/null; exec "$@" >/dev/null 2>&1';
  const child = spawn(
    '/bin/sh',
    ['-c', script, 'busbar-guard', options.node, main, 'down', '--namespace', options.namespace],
    {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { ...options.env, [CLI_VARIABLE]: dirname(options.stateDir) },
    },
  );
  const mark = child.pid === undefined ? undefined : markOf(child.pid);
  assert(mark !== undefined, 'the guard shell runs');
  child.unref();
  return { role: 'guard', id: 'guard', ...mark, startedAt: new Date().toISOString() };
}
