/** What may stand in the way of an engine, as found on this host. Made by `gatherHostFacts`. */
export interface HostFacts {
  processes: readonly ProcessFact[];
  /** Absent when no port was asked for. */
  port?: { host: string; port: number; isBusy: boolean };
  /** Download locks of the model that some process holds. */
  locks: readonly { path: string; pids: readonly number[] }[];
  /** Absent when no command was asked about. */
  gpu?: GpuFacts;
  /** Of the vLLM that the command runs; absent when its files do not tell. */
  vllmVersion?: string;
}

export interface ProcessFact {
  pid: number;
  parentPid: number;
  groupId: number;
  /** Title or command line. */
  command: string;
}

export interface GpuFacts {
  /** Of the NVIDIA kernel driver; absent without one. */
  driverVersion?: string;
  /** Newest CUDA that the driver runs, such as `12.8`. */
  driverCuda?: string;
  /** CUDA that the engine's torch was built for; absent for builds without CUDA. */
  torchCuda?: string;
  /** The engine is a build for CPUs, whatever torch is. */
  isCpuBuild: boolean;
}

export type HostFindingKind = 'leftover' | 'port' | 'lock' | 'driver';

/** One reason not to start an engine now. */
export interface HostFinding {
  kind: HostFindingKind;
  /** One sentence, with pids, paths and versions. */
  message: string;
  /** What a person can do, as a sentence or a command line. */
  remedy: string;
}

const LEFTOVER = /(^|\/|\s)(VLLM::|vllm serve\b)|vllm\.entrypoints|vllm\/entrypoints/;
const INIT_PID = 1;

/**
 * Engine processes whose parent is gone: they hold memory of the accelerator for nobody. A `vllm serve` that a service manager
 * started is also a child of process 1; it is only counted when it leads no group of its own or its leader is gone.
 */
export function findLeftovers(processes: readonly ProcessFact[]): ProcessFact[] {
  const pids = new Set(processes.map((each) => each.pid));
  return processes.filter(
    (each) =>
      each.parentPid === INIT_PID &&
      LEFTOVER.test(each.command) &&
      (each.command.startsWith('VLLM::') || !pids.has(each.groupId) || each.groupId !== each.pid),
  );
}

/** Judges facts; no finding means that nothing known stands in the way. */
export function judgeHost(facts: HostFacts): HostFinding[] {
  return [...judgeLeftovers(facts), ...judgePort(facts), ...judgeLocks(facts), ...judgeGpu(facts)];
}

function judgeLeftovers({ processes }: HostFacts): HostFinding[] {
  const leftovers = findLeftovers(processes);
  if (leftovers.length === 0) return [];
  const names = leftovers.map((each) => `${each.pid} (${each.command.slice(0, 40)})`).join(', ');
  const groups = [...new Set(leftovers.map((each) => each.groupId))];
  return [
    {
      kind: 'leftover',
      message: `Engine processes of an earlier vLLM still run without their parent: ${names}.`,
      remedy: `End them: kill -TERM -- ${groups.map((group) => `-${group}`).join(' ')} (then -KILL).`,
    },
  ];
}

function judgePort({ port }: HostFacts): HostFinding[] {
  if (port === undefined || !port.isBusy) return [];
  return [
    {
      kind: 'port',
      message: `Port ${port.port} of ${port.host} is taken by another process.`,
      remedy: `Choose another port, or see who has it: ss -ltnp 'sport = :${port.port}'`,
    },
  ];
}

function judgeLocks({ locks }: HostFacts): HostFinding[] {
  return locks.map(({ path, pids }) => ({
    kind: 'lock',
    message: `The model is locked by ${pids.length === 1 ? 'process' : 'processes'} ${pids.join(', ')} (${path}); the engine would wait for it without a word.`,
    remedy: 'Wait until that download is over, or end the process.',
  }));
}

/** Minor versions of CUDA are compatible with each other (from 11), major ones are not. */
function judgeGpu({ gpu }: HostFacts): HostFinding[] {
  if (gpu === undefined || gpu.isCpuBuild || gpu.torchCuda === undefined) return [];
  if (gpu.driverVersion === undefined) {
    return [
      {
        kind: 'driver',
        message: `This vLLM is built for CUDA ${gpu.torchCuda}, and no NVIDIA driver is loaded here.`,
        remedy:
          'Install the driver, pass the GPU into the container (--gpus all), or use a CPU build.',
      },
    ];
  }
  const driver = majorOf(gpu.driverCuda ?? cudaOfDriver(gpu.driverVersion));
  const torch = majorOf(gpu.torchCuda);
  if (driver === undefined || torch === undefined || driver >= torch) return [];
  return [
    {
      kind: 'driver',
      message: `This vLLM is built for CUDA ${gpu.torchCuda}; driver ${gpu.driverVersion} runs CUDA ${driver}.x at most.`,
      remedy: 'Update the driver, or install a build of vLLM for the CUDA that the driver runs.',
    },
  ];
}

function majorOf(version: string | undefined): number | undefined {
  const major = Number.parseInt(version ?? '', 10);
  return Number.isNaN(major) ? undefined : major;
}

/** First driver branch of each CUDA major version (NVIDIA, "CUDA Compatibility"). */
function cudaOfDriver(driverVersion: string): string | undefined {
  const branch = majorOf(driverVersion);
  if (branch === undefined) return undefined;
  if (branch >= 580) return '13';
  if (branch >= 525) return '12';
  return branch >= 450 ? '11' : '10';
}
