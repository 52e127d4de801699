import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectNats } from '@busbar/bus';
import {
  bucketNames,
  encodeLinkRecord,
  type LinkRecord,
  linkKey,
  PROTOCOL_VERSION,
} from '@busbar/protocol';
import { waitFor } from '@busbar/testkit';
import { allGone, busbar, type Home, list, newHome } from './cli-home.ts';

const WAIT_MS = 20_000;
const SERVICES = join(import.meta.dirname, '../../services');

/** A stack in one state, as `busbar doctor` is to be asked about it. */
export interface DoctorStack {
  /** What the fault is about; each has a test file of its own, so that none takes long. */
  about: 'processes' | 'caches' | 'split';
  /** Also the heading under which the guide shows it. */
  title: string;
  /** Flags of `busbar up`. */
  flags: string[];
  /** What goes wrong then; answers what must be undone. */
  harm?: (home: Home) => Promise<(() => void) | undefined>;
  exitCode: 0 | 1;
  /** Lines that say it: names and figures are left out. */
  says: RegExp[];
}

const SPLIT = ['--prefill', '1', '--decode', '1'];
const UNLIKE = ['--prefill-mock-speed', '8', '--mock-speed', '0.1'];

export const DOCTOR_STACKS: readonly DoctorStack[] = [
  {
    title: 'A good stack, split',
    about: 'split',
    // KV that is small for what it takes to compute, so that a busy machine's loopback does not decide.
    flags: [...SPLIT, ...UNLIKE, '--kv-bytes-per-token', '2048'],
    exitCode: 0,
    says: [
      /✓ decode-1-\w+: \d+ batch(es)? heard during the probe|✓ decode-1-\w+: nothing new/,
      /✓ same prompt sent again: [\d,]+ of [\d,]+ prompt tokens came from the cache; first token after/,
      /prefill-1-\w+ → decode-1-\w+: [\d.,]+ Gbit\/s by .*; 1,500 tokens are 3\.1 MB: [\d.]+ m?s/,
      /✓ disaggregation here: pays, because of 1,500 tokens: .* on the link/,
      /✓ engine processes: none without a parent/,
    ],
  },
  {
    title: 'A good stack, not split',
    about: 'caches',
    flags: ['--decode', '2'],
    exitCode: 0,
    says: [
      /✓ disaggregation here: does not pay, because there is no prefill worker; .* from [\d.,]+ Gbit\/s while 16/,
    ],
  },
  {
    title: 'NATS is gone',
    about: 'processes',
    flags: ['--decode', '1'],
    harm: (home) => kill(home, 'nats-server'),
    exitCode: 1,
    says: [/✗ NATS reachable: nothing answers as NATS at /],
  },
  {
    title: 'No router',
    about: 'processes',
    flags: ['--decode', '1'],
    harm: (home) => kill(home, 'router'),
    exitCode: 1,
    says: [
      /✗ router-1-\w+: pid \d+ has ended/,
      /✗ router: none runs/,
      /✗ same prompt sent again: 503/,
    ],
  },
  {
    title: 'Workers send no KV events',
    about: 'caches',
    flags: ['--decode', '1', '--no-kv-events'],
    exitCode: 1,
    says: [/✗ decode-1-\w+: the engine runs without KV events/, /→ start it with KV events on/],
  },
  {
    title: 'The cache is too small for the prefixes in use',
    about: 'caches',
    flags: ['--decode', '1', '--kv-blocks', '150', '--profile', 'instant'],
    harm: askManyPrefixes,
    exitCode: 0,
    says: [/! decode-1-\w+: .* tokens of prefixes wanted/, /→ the prefixes in use do not fit/],
  },
  {
    title: 'A slow link',
    about: 'split',
    flags: [...SPLIT],
    harm: slowLink,
    exitCode: 0,
    says: [
      /prefill-1-\w+ → decode-1-\w+: 0\.83 Gbit\/s by [\d,]+ transfers?, none failed; 1,500 tokens are 172 MB: 1\.7 s/,
      /✓ disaggregation here: does not pay, because of 1,500 tokens: .* at 0\.83 Gbit\/s = 1\.7 s on the link/,
    ],
  },
  {
    title: 'A pair that cannot exchange KV',
    about: 'split',
    flags: [...SPLIT],
    harm: strangePrefill,
    exitCode: 1,
    says: [
      /! strange → decode-1-\w+: refused: KV bytes per token is 229376 at prefill and 114688 at decode/,
      /✗ strange: no decode worker can use what it computes/,
    ],
  },
  {
    title: 'Strict, and the prefill worker is gone',
    about: 'split',
    flags: [...SPLIT, '--disaggregation', 'always', '--disaggregation-strict'],
    harm: (home) => kill(home, 'prefill'),
    exitCode: 1,
    says: [/✗ strict mode: disaggregation is always and strict, and no prefill worker is here/],
  },
  {
    title: 'An engine process without its parent',
    about: 'processes',
    flags: ['--decode', '1'],
    harm: leftover,
    exitCode: 1,
    says: [/✗ engine processes: .*VLLM::EngineCore/, /→ .*kill -TERM -- -\d+/],
  },
  {
    title: 'A router that hangs',
    about: 'processes',
    flags: ['--decode', '1'],
    harm: (home) => kill(home, 'router', 'SIGSTOP'),
    exitCode: 1,
    says: [/✗ router-1-\w+: (its admin port does not answer|pid \d+ runs and holds no lease)/],
  },
];

/** Starts the stack, harms it, asks doctor, and takes everything down. */
export async function diagnosed(
  stack: DoctorStack,
): Promise<{ exitCode: number | null; text: string; tookMs: number }> {
  const home = await newHome('doctor');
  let undo: (() => void) | undefined;
  try {
    const up = busbar(home, 'up', '--detach', '--port', String(home.port), ...stack.flags);
    if (up.status !== 0) throw new Error(`${stack.title}: ${up.stderr}`);
    undo = await stack.harm?.(home);
    const beganMs = performance.now();
    const { status, stdout } = busbar(home, 'doctor');
    const tookMs = performance.now() - beganMs;
    const text = stdout.replaceAll(home.stateDir, '.busbar/default');
    return { exitCode: status, text, tookMs };
  } finally {
    undo?.();
    busbar(home, 'down');
    rmSync(home.folder, { recursive: true, force: true });
  }
}

async function kill(
  home: Home,
  role: string,
  signal: NodeJS.Signals = 'SIGKILL',
): Promise<undefined | (() => void)> {
  const found = list(home).processes.find((view) => view.role === role);
  if (found === undefined) throw new Error(`no ${role} runs`);
  process.kill(found.pid, signal);
  if (signal === 'SIGSTOP') {
    // Heartbeats and leases of before must be over.
    await sleep(4_000);
    return () => process.kill(found.pid, 'SIGCONT');
  }
  await allGone([found.pid], WAIT_MS);
  if (role === 'prefill') await leaseGone(home, found.id);
  return undefined;
}

async function leaseGone(home: Home, id: string): Promise<void> {
  const bus = await connectNats({ url: list(home).natsUrl ?? '', name: 'test' });
  try {
    const bucket = await bus.bucket(bucketNames('doctor').instances);
    await waitFor(
      async () => (await bucket.entries()).every(({ key }) => !key.endsWith(id)),
      WAIT_MS,
      'the lease to end',
    );
  } finally {
    await bus.close();
  }
}

/** Asks for thirty prefixes of about 300 tokens in turn, four times what 150 blocks hold, without end. Says each round on its output. */
const ASK = `
  for (let at = 0; ; at++) {
    const content = 'prefix ' + (at % 30) + (' of ' + (at % 30) + ' words ').repeat(50);
    const messages = [{ role: 'user', content }];
    const response = await fetch(process.argv[1], {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'busbar-mock', max_tokens: 1, messages }),
    });
    if (!response.ok) throw new Error(await response.text());
    await response.text();
    if (at % 30 === 29) console.log('round');
    // Slowly, so that the prompt that doctor sends twice is not pushed out in between.
    await new Promise((resolve) => setTimeout(resolve, 40));
  }`;

/** Goes on asking while doctor looks: what nobody asks for any more is not in use. */
async function askManyPrefixes(home: Home): Promise<() => void> {
  const url = `http://127.0.0.1:${home.port}/v1/chat/completions`;
  const asker = spawn(process.execPath, ['--input-type=module', '-e', ASK, url], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let rounds = 0;
  asker.stdout.on('data', (text: Buffer) => (rounds += text.toString().split('round').length - 1));
  await waitFor(() => rounds >= 2, WAIT_MS, 'two rounds of prefixes');
  return () => asker.kill('SIGKILL');
}

/** What a decode worker would have published of a link of 1 Gbit/s: this machine's own has no limit. */
async function slowLink(home: Home): Promise<undefined> {
  const view = list(home);
  const idOf = (role: string): string => {
    return view.processes.find((process) => process.role === role)?.id ?? '';
  };
  const bus = await connectNats({ url: view.natsUrl ?? '', name: 'test' });
  const bucket = await bus.bucket(bucketNames('doctor').links);
  const record: LinkRecord = {
    protocol: PROTOCOL_VERSION,
    prefillWorkerId: idOf('prefill'),
    decodeWorkerId: idOf('decode'),
    transferProtocol: 'tcp',
    transfers: 40,
    failures: 0,
    bytesTotal: 6_880_000_000,
    busyMsTotal: 66_154,
    bytesPerMs: 104_000,
    latencyMs: 1.2,
    source: 'transfers',
    updatedAt: new Date().toISOString(),
  };
  const key = linkKey(record.prefillWorkerId, record.decodeWorkerId);
  await bucket.put(key, encodeLinkRecord(record));
  // The worker may still have its own first measurement to tell.
  await sleep(1_500);
  await bucket.put(key, encodeLinkRecord(record));
  await bus.close();
  return undefined;
}

/** A worker of another KV size joins: as of another model revision. */
async function strangePrefill(home: Home): Promise<() => void> {
  const child = spawn(process.execPath, [join(SERVICES, 'prefill/src/main.ts')], {
    env: {
      ...home.env,
      BUSBAR_STATE_DIR: undefined,
      BUSBAR_NATS_URL: list(home).natsUrl ?? '',
      BUSBAR_ID: 'strange',
      BUSBAR_KV_BYTES_PER_TOKEN: '229376',
    },
    stdio: 'ignore',
  });
  await waitFor(
    () => list(home).processes.some((view) => view.id === 'strange' && view.state === 'ready'),
    WAIT_MS,
    'the other prefill worker',
  );
  return () => child.kill('SIGKILL');
}

/** A process that is called like an engine's, and whose parent has ended. */
async function leftover(home: Home): Promise<() => void> {
  const script = 'exec -a VLLM::EngineCore sleep 60';
  const child = spawn('bash', ['-c', `setsid bash -c '${script}' & echo $!`], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: home.env,
  });
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()));
  await waitFor(() => output.includes('\n'), WAIT_MS, 'the process');
  const pid = Number(output);
  return () => process.kill(pid, 'SIGKILL');
}
