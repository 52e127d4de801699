// `npm test`: all checks, then all tests, then one line that sums them up. `--only check|unit|sim|e2e` runs a part.
import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const BIN = join(ROOT, 'node_modules', '.bin');

type Part = 'check' | 'unit' | 'sim' | 'e2e';
const PARTS: readonly Part[] = ['check', 'unit', 'sim', 'e2e'];

interface Outcome {
  name: string;
  passed: number;
  failed: number;
  skipped: number;
  seconds: number;
}

interface Step {
  part: Part;
  name: string;
  command: string;
  args: string[];
  /** For a run of node:test: its own counts are read. Otherwise the step counts as one. */
  counts: boolean;
  /** The whole step is ended after this. */
  limitSeconds: number;
}

const CHECKS: [name: string, command: string, args: string[]][] = [
  ['format', 'biome', ['check', '.']],
  ['types', 'tsc', []],
  ['lint', 'oxlint', ['--type-aware']],
  ['boundaries', 'turbo', ['boundaries']],
];

/** Tests beside the sources run side by side; those that start servers and processes one file after the other. */
const TESTS: { part: Part; globs: string[]; concurrency: number; timeoutMs: number }[] = [
  {
    part: 'unit',
    globs: ['packages/*/src/**/*.test.ts', 'services/*/src/**/*.test.ts', 'test/*.test.ts'],
    concurrency: availableParallelism(),
    timeoutMs: 60_000,
  },
  {
    part: 'sim',
    globs: ['test/sim/**/*.test.ts'],
    concurrency: availableParallelism(),
    timeoutMs: 120_000,
  },
  { part: 'e2e', globs: ['test/*/**/*.test.ts'], concurrency: 1, timeoutMs: 120_000 },
];
/** A real vLLM is gigabytes and minutes: `npm run test:compat:vllm`. */
const APART = 'test/compat-vllm/**';

function steps(only: Part | undefined): Step[] {
  const all: Step[] = CHECKS.map(([name, command, args]) => {
    return {
      part: 'check',
      name: `check ${name}`,
      command: join(BIN, command),
      args,
      counts: false,
      limitSeconds: 180,
    };
  });
  const taken = new Set<string>();
  for (const { part, globs, concurrency, timeoutMs } of TESTS) {
    // A file belongs to the first part that names it.
    const files = globSync(globs, { cwd: ROOT, exclude: [APART] })
      .filter((file) => !taken.has(file))
      .toSorted();
    for (const file of files) taken.add(file);
    if (files.length === 0) continue;
    const args = ['--test', '--test-reporter=spec', `--test-timeout=${timeoutMs}`];
    args.push(`--test-concurrency=${concurrency}`, ...files);
    all.push({
      part,
      name: part,
      command: process.execPath,
      args,
      counts: true,
      limitSeconds: 600,
    });
  }
  return all.filter(({ part }) => only === undefined || part === only);
}

/** A count of node:test's summary, such as "ℹ pass 12"; the last one is the total. */
function readCount(output: string, label: string): number | undefined {
  const last = [...output.matchAll(new RegExp(`^ℹ ${label} (\\d+)$`, 'gm'))].at(-1);
  return last?.[1] === undefined ? undefined : Number(last[1]);
}

function environment(): NodeJS.ProcessEnv {
  // Tests are programs of Node 24, and so are the processes that they start by the name `node`.
  const path = [BIN, dirname(process.execPath), process.env['PATH']].join(
    process.platform === 'win32' ? ';' : ':',
  );
  const compiled = join(ROOT, 'node_modules/.cache/busbar');
  return {
    ...process.env,
    PATH: path,
    TURBO_TELEMETRY_DISABLED: '1',
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? compiled,
  };
}

function execute(step: Step): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(step.command, step.args, {
      cwd: ROOT,
      env: environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    const forward = (chunk: Buffer): void => {
      process.stdout.write(chunk);
      output = (output + chunk.toString()).slice(-200_000);
    };
    child.stdout.on('data', forward);
    child.stderr.on('data', forward);
    const timer = setTimeout(() => {
      forward(Buffer.from(`\n${step.name}: ended after ${step.limitSeconds} s\n`));
      child.kill('SIGTERM');
    }, step.limitSeconds * 1_000);
    child.on('error', (error) => forward(Buffer.from(`${step.name}: ${error.message}\n`)));
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code: code ?? 1, output });
    });
  });
}

async function runStep(step: Step): Promise<Outcome> {
  process.stdout.write(`\n── ${step.name}\n`);
  const startMs = performance.now();
  const { code, output } = await execute(step);
  const seconds = (performance.now() - startMs) / 1_000;
  const passed = step.counts ? (readCount(output, 'pass') ?? 0) : Number(code === 0);
  const counted = (readCount(output, 'fail') ?? 0) + (readCount(output, 'cancelled') ?? 0);
  // A run that ends badly without a failed test (a crash, a time-out of the whole) is a failure too.
  const failed = step.counts && counted > 0 ? counted : Number(code !== 0);
  const skipped = step.counts ? (readCount(output, 'skipped') ?? 0) : 0;
  if (!step.counts)
    process.stdout.write(`${code === 0 ? '✔' : '✖'} ${step.name} (${seconds.toFixed(1)} s)\n`);
  return { name: step.name, passed, failed, skipped, seconds };
}

function summarize(outcomes: Outcome[]): void {
  process.stdout.write('\n── summary\n');
  for (const { name, passed, failed, skipped, seconds } of outcomes) {
    const mark = failed === 0 ? '✔' : '✖';
    const extra = skipped > 0 ? `, ${skipped} skipped` : '';
    process.stdout.write(
      `${mark} ${name.padEnd(18)} ${String(passed).padStart(5)} passed, ${failed} failed${extra}  ${seconds.toFixed(1)} s\n`,
    );
  }
  const total = (key: 'passed' | 'failed'): number =>
    outcomes.reduce((sum, outcome) => sum + outcome[key], 0);
  process.stdout.write(`${total('passed')} passed, ${total('failed')} failed\n`);
  process.exitCode = total('failed') === 0 && outcomes.length > 0 ? 0 : 1;
}

const { values } = parseArgs({ options: { only: { type: 'string' } } });
const only = PARTS.find((part) => part === values.only);
if (values.only !== undefined && only === undefined) {
  process.stderr.write(`--only ${values.only}: one of ${PARTS.join(', ')}\n`);
  process.exitCode = 2;
} else {
  const outcomes: Outcome[] = [];
  for (const step of steps(only)) outcomes.push(await runStep(step));
  summarize(outcomes);
}
