import { randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { VllmError } from '../errors.ts';
import {
  VLLM_DEFAULTS,
  type VllmEngineOptions,
  type VllmPhase,
  type VllmSpawn,
} from '../options.ts';
import type { VllmHttp } from '../vllm-http.ts';
import { GroupChild } from './child-process.ts';
import { judgeHost } from './host-checks.ts';
import { gatherHostFacts } from './host-facts.ts';
import { missingProgram } from './installation.ts';
import { serveCommand, serveEnv, unknownInstallation } from './serve-args.ts';
import { progressOf, StartLog } from './start-log.ts';

const HEALTH_EVERY_MS = 250;
const HEALTH_TIMEOUT_MS = 5_000;
/** What a dying vLLM still writes comes within this. */
const LAST_WORDS_MS = 200;

/** Tells a person how far the start is. */
export type Report = (phase: VllmPhase, detail: string) => void;

export interface Launched {
  url: string;
  child: GroupChild;
  log: StartLog;
  engineId: string;
  sideChannelPort: number;
}

/** Starts `vllm serve`, unless something on the host stands in its way: then it rejects with one sentence for each reason. */
export async function launchVllm(
  options: VllmEngineOptions,
  spawn: VllmSpawn,
  kvEventsConfig: object | undefined,
  report: Report,
): Promise<Launched> {
  const missing = await missingProgram(spawn.command, spawn.env);
  if (missing !== undefined) {
    const remedy =
      'Install vLLM (pip install vllm), or say where it is: BUSBAR_VLLM_COMMAND, --vllm-command of busbar up.';
    throw new VllmError('VLLM_HOST', `${missing} ${remedy}`);
  }
  const host = await gatherHostFacts({
    command: spawn.command,
    modelPath: spawn.modelPath,
    port: { host: spawn.host, port: spawn.port },
    env: spawn.env,
  });
  const findings = judgeHost(host);
  if (findings.length > 0) {
    const text = findings.map(({ message, remedy }) => `${message} ${remedy}`).join(' ');
    throw new VllmError('VLLM_HOST', text);
  }
  const version = host.vllmVersion;
  if (version === undefined) options.onWarning?.(unknownInstallation(spawn));
  const facts = {
    port: spawn.port === 0 ? await freePort(spawn.host) : spawn.port,
    version,
    kvEventsConfig,
    sideChannelPort: await sideChannelPort(options),
    engineId: randomUUID(),
  };
  const log = new StartLog();
  const child = await GroupChild.start({
    command: serveCommand(options, spawn, facts),
    env: serveEnv(options, spawn, facts),
    graceMs: options.stopGraceMs ?? VLLM_DEFAULTS.stopGraceMs,
    onLine: (line) => {
      log.add(line);
      options.onLog?.(line);
      const progress = progressOf(line);
      if (progress !== undefined) report('loading', progress);
    },
  });
  report('process', `vllm serve runs as process group ${child.pid}`);
  const { engineId, sideChannelPort: channel } = facts;
  return { url: urlOf(spawn.host, facts.port), child, log, engineId, sideChannelPort: channel };
}

/**
 * Resolves when `/health` answers 200. Rejects with VllmError when the process ends before, with the root cause from its log,
 * or when the time is over; with the signal's reason when that fires.
 */
export async function waitHealthy(
  http: VllmHttp,
  launched: Pick<Launched, 'child' | 'log'> | undefined,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const beganMs = performance.now();
  for (;;) {
    signal.throwIfAborted();
    if (launched?.child.isEnded === true) {
      const { code, signal: killer } = await launched.child.ended;
      await sleep(LAST_WORDS_MS);
      const how = killer === null ? `with code ${code}` : `by ${killer}`;
      throw new VllmError(
        'VLLM_START',
        `vLLM ended ${how} after ${seconds(beganMs)} s: ${launched.log.rootCause()}`,
      );
    }
    const status = await http.exchange('GET', '/health', undefined, HEALTH_TIMEOUT_MS).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
    if (performance.now() - beganMs > timeoutMs) {
      const last = launched === undefined ? '' : `; the last it wrote: ${launched.log.tail.at(-1)}`;
      throw new VllmError(
        'VLLM_START',
        `vLLM at ${http.url} is not healthy after ${seconds(beganMs)} s${last}`,
      );
    }
    await sleep(HEALTH_EVERY_MS, undefined, { signal });
  }
}

async function sideChannelPort({ transfer }: VllmEngineOptions): Promise<number> {
  if (transfer === undefined) return 0;
  return transfer.port === 0 ? freePort(transfer.host) : transfer.port;
}

function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      reject(new VllmError('VLLM_OPTIONS', `no port can be had on ${host}: ${error.message}`));
    });
    server.listen({ host, port: 0 }, () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

function seconds(sinceMs: number): string {
  return ((performance.now() - sinceMs) / 1_000).toFixed(1);
}
