import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OLDEST_NATS_SERVER } from '@busbar/bus';
import { baseFields, type Scheduling } from '@busbar/service';
import { CliError } from '../errors.ts';
import { freePort } from '../host/ports.ts';
import { natsConf } from '../nats/conf.ts';
import { isVersionAtLeast, type NatsInfo, readNatsInfo } from '../nats/info.ts';
import type { Stack } from '../stack/stack.ts';
import { until } from '../wait.ts';

const START_MS = 10_000;
const ANSWER_MS = 2_000;
/**
 * Starts what follows with timers that may come 30 ms late (Linux; elsewhere nothing changes). The monitor thread of the Go
 * runtime wakes every 20 µs after each message, which is a third of what nats-server costs when messages come one by one;
 * with slack these wake-ups fall together. Leases and pings count in seconds. The process stays the same one.
 */
const TIMER_SLACK = '{ echo 30000000 > /proc/self/timerslack_ns; } 2>/dev/null';
/** As services do it (`scheduled`): a woken nats-server does not interrupt those whose messages it carries. */
const BATCH = 'chrt --batch --pid 0 $$ >/dev/null 2>&1';

/** The shell's line that becomes nats-server, with the settings of Linux that only a process can make for itself. */
function launchLine(scheduling: Scheduling): string {
  const settings = scheduling === 'batch' ? [TIMER_SLACK, BATCH] : [TIMER_SLACK];
  return [...settings, 'exec "$0" "$@"'].join('; ');
}

export interface NatsLaunch {
  binary: string;
  serverName: string;
  scheduling: Scheduling;
  /** Where `chrt` is looked for. */
  path: string;
  /** Ends the wait for the server's first answer. */
  signal: AbortSignal;
}

/** Starts a nats-server on a free loopback port and waits until it answers. Its files lie below the state folder. */
export async function startNats(
  stack: Stack,
  { binary, serverName, scheduling, path, signal }: NatsLaunch,
): Promise<{ url: string; info: NatsInfo }> {
  const folder = join(stack.stateDir, 'nats');
  // Leases and cards of a stack that is gone must not look like processes that run.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const port = await freePort('127.0.0.1');
  const conf = join(folder, 'nats-server.conf');
  writeFileSync(conf, natsConf({ serverName, port, storeDir: join(folder, 'store') }));
  testConf(binary, conf);
  const url = `nats://127.0.0.1:${port}`;
  stack.state.natsUrl = url;
  stack.launch({
    role: 'nats-server',
    id: 'nats-server',
    command: '/bin/sh',
    args: ['-c', launchLine(scheduling), binary, '-c', conf],
    // One core carries far more messages than one machine's stack sends; a second only spins between them.
    env: { PATH: path, GOMAXPROCS: '1' },
    logFile: join(stack.stateDir, 'logs', 'nats-server.log'),
    port,
  });
  const info = await until(
    async () => {
      stack.checkAlive();
      return readNatsInfo(url, ANSWER_MS).catch(() => undefined);
    },
    { timeoutMs: START_MS, everyMs: 20, signal },
  );
  if (info?.serverName !== serverName) {
    throw new CliError('CLI_NO_NATS', `nats-server did not answer on ${url} within 10 s`);
  }
  return { url, info };
}

/** Checks a NATS that somebody else runs. Throws CLI_NO_NATS with what is missing, CLI_USAGE for what no service takes as an address. */
export async function checkNats(url: string): Promise<NatsInfo> {
  const parsed = baseFields.natsUrl.safeParse(url);
  if (!parsed.success) {
    throw new CliError(
      'CLI_USAGE',
      `BUSBAR_NATS_URL ${parsed.error.issues[0]?.message ?? 'is not valid'}, not "${url}"`,
    );
  }
  let info: NatsInfo;
  try {
    info = await readNatsInfo(url, ANSWER_MS);
  } catch (error) {
    throw new CliError(
      'CLI_NO_NATS',
      `BUSBAR_NATS_URL is ${url}, and nothing answers there as NATS: start it, or unset the variable so that "busbar up" runs its own`,
      { cause: error },
    );
  }
  if (!isVersionAtLeast(info.version, ...OLDEST_NATS_SERVER)) {
    throw new CliError(
      'CLI_NO_NATS',
      `nats-server ${info.version} at ${url} is too old: Busbar needs ${OLDEST_NATS_SERVER.join('.')} or newer`,
    );
  }
  if (!info.hasJetStream) {
    throw new CliError(
      'CLI_NO_NATS',
      `nats-server at ${url} runs without JetStream: start it with -js`,
    );
  }
  return info;
}

function testConf(binary: string, conf: string): void {
  const { status, stderr, stdout, error } = spawnSync(binary, ['-t', '-c', conf], {
    encoding: 'utf8',
    timeout: START_MS,
  });
  if (status === 0) return;
  throw new CliError(
    'CLI_NO_NATS',
    `${binary} refuses ${conf}: ${error?.message ?? `${stderr}${stdout}`.trim().slice(0, 400)}`,
  );
}
