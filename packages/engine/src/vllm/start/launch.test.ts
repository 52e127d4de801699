import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../until.testing.ts';
import { Heard, prompt, request } from '../engine-harness.testing.ts';
import { VLLM_PHASES, type VllmEngineOptions, type VllmProgress } from '../options.ts';
import { createVllmEngine } from '../vllm-engine.ts';
import { listProcesses } from './host-facts.ts';

const SERVE = join(import.meta.dirname, 'fake-serve.testing.ts');
const never = new AbortController().signal;

function optionsOf(
  args: readonly string[],
  more: Partial<VllmEngineOptions> = {},
  port = 0,
): VllmEngineOptions {
  return {
    role: 'decode',
    model: 'tiny',
    engine: {
      kind: 'spawn',
      command: [process.execPath, SERVE],
      modelPath: '/models/tiny',
      host: '127.0.0.1',
      port,
      args,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    },
    kvEvents: false,
    clock: { monotonicMs: () => performance.now(), wallMs: () => Date.now() },
    stopGraceMs: 2_000,
    ...more,
  };
}

async function countServers(): Promise<number> {
  const processes = await listProcesses();
  return processes.filter(({ command }) => command.includes(SERVE)).length;
}

test('a child is started with visible phases, tells its blocks and generates, and leaves nothing behind', async () => {
  const phases: VllmProgress[] = [];
  const heard = new Heard();
  const engine = createVllmEngine(
    optionsOf([], {
      kvEvents: true,
      blockSize: 32,
      contextTokens: 1024,
      onProgress: (progress) => phases.push(progress),
    }),
  );
  const info = await engine.start(heard, never);
  assert.equal(info.blockSize, 32);
  assert.equal(info.contextTokens, 1024);
  assert.equal(info.kvEvents, true);
  assert.deepEqual(
    phases.map(({ phase }) => phase).filter((phase, at, all) => phase !== all[at - 1]),
    VLLM_PHASES,
  );
  assert.match(phases.find(({ phase }) => phase === 'model')?.detail ?? '', /KV for 2048 tokens/);
  engine.submit(request(1, { tokens: prompt(70) }));
  assert.equal((await heard.end(1)).finish, 'length');
  await until('its four blocks are known', () => engine.blocks()[0]?.hashes.length === 4);
  assert.ok((await countServers()) >= 1);
  await engine.stop();
  assert.equal(await countServers(), 0);
  assert.deepEqual(heard.said, []);
});

test('a vLLM behind wrappers gets what its version needs; an unknown one is told once, with what to do', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'busbar-launch-'));
  await mkdir(join(folder, 'lib/python3.12/site-packages/vllm-0.32.0.dist-info'), {
    recursive: true,
  });
  await mkdir(join(folder, 'bin'));
  await writeFile(join(folder, 'bin/vllm'), '');
  const start = async (words: readonly string[], args: readonly string[]) => {
    const warnings: string[] = [];
    const details: string[] = [];
    const options = optionsOf(args, {
      onWarning: (message) => warnings.push(message),
      onProgress: ({ detail }) => details.push(detail),
    });
    assert.ok(options.engine.kind === 'spawn');
    const command = ['nice', '-n', '1', ...options.engine.command, ...words];
    const engine = createVllmEngine({ ...options, engine: { ...options.engine, command } });
    await engine.start(new Heard(), never);
    await engine.stop();
    return { warnings, ready: details.at(-1) };
  };
  try {
    const known = await start([join(folder, 'bin/vllm')], []);
    assert.deepEqual(known, { warnings: [], ready: 'takes token ids at /inference/v1/generate' });
    const unknown = await start([], []);
    assert.equal(unknown.ready, 'takes token ids at /v1/completions');
    assert.equal(unknown.warnings.length, 2);
    assert.match(unknown.warnings[0] ?? '', /^Which vLLM "nice -n 1 .*" runs cannot be told/);
    assert.match(unknown.warnings[0] ?? '', /--enable-scale-out is left out, because/);
    assert.match(unknown.warnings[1] ?? '', /refuses .*add --enable-scale-out to the arguments/);
    const helped = await start([], ['--enable-scale-out']);
    assert.equal(helped.ready, 'takes token ids at /inference/v1/generate');
    assert.equal(helped.warnings.length, 1);
    assert.doesNotMatch(helped.warnings[0] ?? '', /scale-out/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('a program that is not there is told before anything is started', async () => {
  const refused = async (program: string, pattern: RegExp): Promise<void> => {
    const options = optionsOf([], { onWarning: (message) => assert.fail(message) });
    assert.ok(options.engine.kind === 'spawn');
    const engine = createVllmEngine({
      ...options,
      engine: { ...options.engine, command: [program] },
    });
    await assert.rejects(engine.start(new Heard(), never), pattern);
  };
  await refused('vllm-of-nobody', /^VllmError: No program "vllm-of-nobody" is on PATH\. Install/);
  await refused(SERVE, /is no program\. .*--vllm-command/);
  await refused('/nowhere/vllm', /^VllmError: \/nowhere\/vllm is no program\./);
});

test('a child that ends by itself is a fault, and its descendants end too', async () => {
  const heard = new Heard();
  const engine = createVllmEngine(optionsOf([]));
  await engine.start(heard, never);
  const processes = await listProcesses();
  const server = processes.find(({ command }) =>
    command.startsWith(`${process.execPath} ${SERVE}`),
  );
  assert.ok(server !== undefined);
  process.kill(server.pid, 'SIGKILL');
  await until('the fault is told', () => heard.said.length > 0);
  assert.match(heard.said[0] ?? '', /^fault vLLM ended with code 137/);
  const deadline = performance.now() + 10_000;
  for (;;) {
    const rest = await listProcesses();
    if (!rest.some((each) => each.groupId === server.groupId && each.command !== '')) break;
    assert.ok(performance.now() < deadline, 'the rest of its group still runs');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await engine.stop();
});

test('a start that fails tells the root cause', async () => {
  const engine = createVllmEngine(optionsOf(['--fail', 'ValueError: no common block size for 16']));
  await assert.rejects(
    engine.start(new Heard(), never),
    /vLLM ended with code 1 after [\d.]+ s: ValueError: no common block size for 16$/,
  );
});

test('a start that takes too long, or is given up, ends the child', async () => {
  const slow = createVllmEngine(optionsOf(['--never-ready'], { startTimeoutMs: 500 }));
  await assert.rejects(slow.start(new Heard(), never), /is not healthy after/);
  const given = createVllmEngine(optionsOf(['--never-ready']));
  await assert.rejects(given.start(new Heard(), AbortSignal.timeout(300)));
  assert.equal(await countServers(), 0);
});

test('a busy port is refused before anything starts', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const engine = createVllmEngine(optionsOf([], {}, port));
  await assert.rejects(engine.start(new Heard(), never), /Port \d+ of 127\.0\.0\.1 is taken/);
  server.close();
});
