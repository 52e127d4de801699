import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SETUP_MS = 20_000;

/**
 * What frames of 1,538 bytes on a wire of 1 Gbit/s leave for the 1,464 bytes that the shaper counts: preamble, gap and checksum take 24,
 * and the tunnel of a pod network 50. TCP gets 1,398 of them: 113.6 MB/s.
 */
const SHAPED_MBIT = 952;
const SHAPED_MTU = 1450;
/**
 * Connections that may each have the same part of the shaper's queue, and that nothing else slows, get equal shares of the link, as fair
 * queueing gives them on a network card: few kernels have it for namespaces.
 */
const FAIR = [
  'cd /proc/sys/net/ipv4',
  'echo reno > tcp_congestion_control',
  'echo 131072 > tcp_limit_output_bytes',
];

/** Where a process of the bench runs, and where the others reach it. */
export interface Place {
  /** Command that runs another one there. */
  exec: readonly string[];
  /** Address over which the bus and whoever measures come; it is not shaped. */
  busHost: string;
  /** Address of the bus from there. */
  natsHost: string;
  /** Address from which KV is served. */
  transferHost: string;
}

/** One host for everything. */
export const LOOPBACK: Place = {
  exec: [],
  busHost: '127.0.0.1',
  natsHost: '127.0.0.1',
  transferHost: '127.0.0.1',
};

/** Two hosts with a shaped link between them; the bus has links of its own, so that KV never stands before its messages. */
export const SHAPED: Readonly<Record<'prefill' | 'decode', Place>> = {
  prefill: {
    exec: ['ip', 'netns', 'exec', 'prefill'],
    busHost: '10.77.1.2',
    natsHost: '10.77.1.1',
    transferHost: '10.77.0.1',
  },
  decode: {
    exec: ['ip', 'netns', 'exec', 'decode'],
    busHost: '10.77.2.2',
    natsHost: '10.77.2.1',
    transferHost: '10.77.0.2',
  },
};

/** `/run` is covered because it names network namespaces, and to hold what the bench writes while it runs. */
export const SETUP: readonly string[] = [
  'mount -t tmpfs tmpfs /run',
  'ip link set lo up',
  'ip netns add prefill',
  'ip netns add decode',
  'ip link add bus-prefill type veth peer name bus netns prefill',
  'ip link add bus-decode type veth peer name bus netns decode',
  'ip -n prefill link add kv type veth peer name kv netns decode',
  'ip addr add 10.77.1.1/30 dev bus-prefill',
  'ip addr add 10.77.2.1/30 dev bus-decode',
  'ip -n prefill addr add 10.77.1.2/30 dev bus',
  'ip -n decode addr add 10.77.2.2/30 dev bus',
  'ip -n prefill addr add 10.77.0.1/30 dev kv',
  'ip -n decode addr add 10.77.0.2/30 dev kv',
  'for dev in bus-prefill bus-decode; do ip link set $dev up; done',
  'for ns in prefill decode; do for dev in lo bus; do ip -n $ns link set $dev up; done; done',
  `for ns in prefill decode; do ip -n $ns link set kv mtu ${SHAPED_MTU} up; done`,
  `for ns in prefill decode; do tc -n $ns qdisc add dev kv root tbf rate ${SHAPED_MBIT}mbit burst 128kb latency 20ms; done`,
  `for ns in prefill decode; do ip netns exec $ns sh -ec '${FAIR.join('; ')}'; done`,
];

const setupScript = SETUP.join('\n');

/** Builds the network; only inside of `runApart`. */
export async function buildNetwork(): Promise<void> {
  await run('sh', ['-ec', setupScript], { timeout: SETUP_MS });
}

const APART = ['--net', '--mount', '--pid', '--mount-proc', '--fork', '--kill-child=SIGKILL'];

function apart(command: readonly string[]): string[] {
  const isRoot = process.getuid?.() === 0;
  return [...(isRoot ? [] : ['--user', '--map-root-user']), ...APART, '--', ...command];
}

/** Why the network cannot be built here, in a line; undefined when it can. Tried, in namespaces that are gone afterwards. */
export async function networkRefusal(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'network namespaces are a thing of Linux';
  for (const [command, name] of [
    ['unshare', 'util-linux'],
    ['ip', 'iproute2'],
    ['tc', 'iproute2'],
  ] as const) {
    const found = await run('sh', ['-c', `command -v ${command}`]).catch(() => undefined);
    if (found === undefined) return `"${command}" is not installed (package ${name})`;
  }
  try {
    await run('unshare', apart(['sh', '-ec', setupScript]), { timeout: SETUP_MS });
    return undefined;
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    const [line = 'no reason given'] = (stderr ?? '').split('\n').filter((text) => text !== '');
    return `the kernel or missing rights forbid it: ${line}`;
  }
}

/**
 * Runs a script of Node as the first process of network, mount and process namespaces of its own. With its end, by whatever way, the
 * kernel ends every process in them and removes the rest. Answers its exit code.
 */
export function runApart(script: string, args: readonly string[]): Promise<number> {
  const child = spawn('unshare', apart([process.execPath, script, ...args]), {
    stdio: ['pipe', 'inherit', 'inherit'],
    env: { ...process.env, TMPDIR: '/run' },
  });
  const kill = (): void => {
    child.kill('SIGKILL');
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, kill);
  process.once('exit', kill);
  return new Promise((resolve) => {
    child.once('error', () => resolve(1));
    child.once('exit', (code) => resolve(code ?? 130));
  });
}

/** Inside: ends with whoever called `runApart`, also when that was killed. */
export function endWithCaller(): void {
  process.stdin.on('close', () => process.exit(1)).resume();
}
