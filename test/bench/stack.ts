import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '@busbar/testkit';
import type { BenchContext } from './run.ts';

const run = promisify(execFile);
const CLI = join(import.meta.dirname, '../../packages/cli/bin/busbar.cjs');

export interface StackProcess {
  role: string;
  id: string;
  pid: number;
}

export interface Stack {
  url: string;
  processes: StackProcess[];
  /** Pids of the processes of these roles. */
  pids(...roles: string[]): number[];
  busbar(...args: string[]): Promise<{ stdout: string; code: number }>;
  down(): Promise<void>;
}

/** Stacks that run: they are detached, so that an interrupted benchmark has to end them itself. */
const running = new Set<() => Promise<void>>();
let isInterrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    isInterrupted = true;
    void Promise.allSettled([...running].map((down) => down())).then(() => process.exit(1));
  });
}

/** Flags of a stack that serves the benchmark's model with the mock engine, in blocks of 16 tokens. */
export function stackFlags(
  context: Pick<BenchContext, 'model' | 'modelFlags'>,
  profile: string,
  kvBlocks = '16384',
): string[] {
  const engine = ['--profile', profile, '--kv-blocks', kvBlocks, '--block-size', '16'];
  return [...engine, '--model', context.model, ...context.modelFlags];
}

/** Starts a stack of its own with `busbar up --detach` and these further flags. */
export async function startStack(flags: readonly string[]): Promise<Stack> {
  if (isInterrupted) throw new Error('interrupted');
  const port = await freePort();
  const stateDir = await mkdtemp(join(tmpdir(), 'busbar-bench-'));
  const namespace = `bench-${port}`;
  const busbar: Stack['busbar'] = async (...args) => {
    const [command = '', ...rest] = args;
    const env = { ...process.env, BUSBAR_STATE_DIR: stateDir };
    try {
      const { stdout } = await run(
        process.execPath,
        [CLI, command, '--namespace', namespace, ...rest],
        { env, maxBuffer: 1e8 },
      );
      return { stdout, code: 0 };
    } catch (error) {
      const failed = error as { stdout?: string; stderr?: string; code?: number };
      return { stdout: `${failed.stdout ?? ''}${failed.stderr ?? ''}`, code: failed.code ?? 1 };
    }
  };
  let end: Promise<void> | undefined;
  const down = (): Promise<void> => {
    end ??= busbar('down').then(() => {
      running.delete(down);
      return rm(stateDir, { recursive: true, force: true });
    });
    return end;
  };
  running.add(down);
  const up = await busbar('up', '--detach', '--port', String(port), ...flags);
  if (up.code !== 0) {
    await down();
    throw new Error(`busbar up failed:\n${up.stdout}`);
  }
  const ps = await busbar('ps', '--json');
  const { processes } = JSON.parse(ps.stdout) as { processes: StackProcess[] };
  return {
    url: `http://127.0.0.1:${port}`,
    processes,
    pids: (...roles) => processes.filter((p) => roles.includes(p.role)).map((p) => p.pid),
    busbar,
    down,
  };
}
