import { readFile } from 'node:fs/promises';
import { AppError, messageOf } from '@busbar/base';
import { PROFILES } from '@busbar/mocker';
import { createRouterCore, POLICIES } from '@busbar/routing';
import { type CommandOptions, parseCommand, workersOf } from './command-options.ts';
import { type CompareOptions, compare } from './compare.ts';
import { SimulatorError } from './errors.ts';
import { renderPolicyTable } from './policy-table.ts';
import { routerFactory } from './router-factory.ts';
import { compareSplits } from './split/compare-splits.ts';
import { prefillersOf, type SplitOptions } from './split/split-options.ts';
import { renderSplitMarkdown, renderSplitTable } from './split/split-table.ts';
import type { RunSummary } from './summary.ts';
import { renderTable } from './table.ts';
import type { WorkloadDefinition } from './workload.ts';
import { WORKLOADS } from './workloads/catalog.ts';
import { traceWorkload } from './workloads/mooncake.ts';
import { parseMooncakeTrace } from './workloads/mooncake-trace.ts';
import { SPLIT_WORKLOADS } from './workloads/words.ts';

/** Where the command writes whole lines: results and complaints. */
export interface CommandOutput {
  line(text: string): void;
  errorLine(text: string): void;
}

/**
 * `busbar simulate`. Resolves with the exit code: 0, 1 when a run broke a rule of the checker or a trace cannot be read, 2 for flags
 * that make no sense.
 */
export async function runSimulateCommand(args: string[], out: CommandOutput): Promise<number> {
  try {
    const options = parseCommand(args);
    if (options === undefined) {
      for (const line of helpLines()) out.line(line);
      return 0;
    }
    return await run(options, out);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    out.errorLine(`busbar simulate: ${error.message}`);
    if (error.code === 'SIMULATOR_USAGE') out.errorLine('Help: busbar simulate --help');
    return error.code === 'SIMULATOR_USAGE' ? 2 : 1;
  }
}

async function run(options: CommandOptions, out: CommandOutput): Promise<number> {
  const workloads = [...options.workloads, ...(await traceWorkloads(options))];
  const { split } = options;
  if (split !== undefined) return runSplits(options, split, workloads, out);
  const compareOptions: CompareOptions = {
    workloads,
    policies: options.policies,
    seeds: options.seeds,
    profile: options.profile,
    durationMs: options.durationMs,
    routers: options.routers,
    kvEvents: options.kvEvents,
    createRouter: routerFactory(createRouterCore),
    workersOf: (workload) => workersOf(options, workload),
  };
  const summaries = compare(compareOptions);
  if (options.format === 'json') out.line(JSON.stringify(summaries, undefined, 2));
  else if (options.format === 'markdown') out.line(renderPolicyTable(summaries));
  else for (const line of renderTable(summaries)) out.line(line);
  return complain(summaries, out);
}

function runSplits(
  options: CommandOptions,
  split: SplitOptions,
  workloads: readonly WorkloadDefinition[],
  out: CommandOutput,
): number {
  const { policies, seeds, profile, durationMs, routers, kvEvents, format } = options;
  const { modes, thresholdTokens, linkGbits, kvBytesPerToken } = split;
  const runs = compareSplits({
    workloads,
    policies,
    seeds,
    profile,
    durationMs,
    routers,
    kvEvents,
    modes,
    thresholdTokens,
    linkGbits,
    kvBytesPerToken,
    createCore: createRouterCore,
    workersOf: (workload) => {
      const decoders = workersOf(options, workload);
      return [...decoders, ...prefillersOf(split, decoders)];
    },
  });
  if (format === 'json') out.line(JSON.stringify(runs, undefined, 2));
  else if (format === 'markdown') out.line(renderSplitMarkdown(runs));
  else for (const line of renderSplitTable(runs)) out.line(line);
  return complain(runs, out);
}

/** Names the runs that broke a rule; answers the exit code. */
function complain(summaries: readonly RunSummary[], out: CommandOutput): number {
  const broken = summaries.filter((summary) => summary.violations.length > 0);
  for (const { workload, policy, violations } of broken) {
    out.errorLine(`${workload} under ${policy}: ${violations.slice(0, 3).join('; ')}`);
  }
  return broken.length > 0 ? 1 : 0;
}

async function traceWorkloads(options: CommandOptions): Promise<WorkloadDefinition[]> {
  const { tracePath, traceScale, timeScale } = options;
  if (tracePath === undefined) return [];
  let text: string;
  try {
    text = await readFile(tracePath, 'utf8');
  } catch (error) {
    const message = `the trace cannot be read: ${messageOf(error)}`;
    throw new SimulatorError('SIMULATOR_BAD_TRACE', message, { cause: error });
  }
  return [traceWorkload(parseMooncakeTrace(text), { scale: traceScale, timeScale })];
}

function helpLines(): string[] {
  const width = Math.max(
    ...[...WORKLOADS, ...SPLIT_WORKLOADS].map((workload) => workload.name.length),
  );
  return [
    'Usage: busbar simulate [flags]',
    '',
    'Runs workloads against the router and the engine model under a virtual clock and prints what clients would see.',
    'The same flags and seed give the same figures, to the digit.',
    '',
    '  --workload NAME[,NAME]   all by default',
    '  --policy NAME[,NAME]     all by default',
    '  --seed N                 1 by default',
    '  --seeds N                average over the seeds 1 to N',
    '  --workers N              instead of the workers that a workload is meant for; open loops grow with them',
    '  --kv-blocks N[,N]        blocks of each worker, repeated when there are more workers',
    '  --duration SECONDS       how long open loops ask, instead of their own time',
    `  --profile NAME           ${Object.keys(PROFILES).join(', ')}; the first by default`,
    '  --routers N              1 by default; requests are dealt out to them in turn',
    '  --no-kv-events           workers claim to send KV events and send none',
    '  --trace FILE             a trace in JSONL as the Mooncake project publishes it (alone, unless --workload is given)',
    '  --trace-scale N          divides its lengths, 8 by default; prompts above 3,500 tokens are cut',
    '  --time-scale X           multiplies its times, 1 by default',
    '  --json, --markdown       instead of the table',
    '',
    'Prefill workers beside those of the workload, which then only decode what is split:',
    '  --prefill N              how many; without it nothing is split, and the flags below say nothing',
    '  --prefill-speed X        against the profile, 1 by default',
    '  --prefill-kv-blocks N    as many as the first worker of the workload has, by default',
    '  --link-gbit G[,G]        rate of each network interface, 1,10,25,100,400 by default',
    '  --disaggregation MODE[,MODE]  auto (default), always, never, threshold',
    '  --disaggregation-threshold N  for threshold: split above so many uncached tokens, 1024 by default',
    '  --kv-bytes-per-token N   114688 by default (Qwen3-0.6B in bfloat16)',
    '',
    `Policies: ${POLICIES.join(', ')}`,
    'Workloads:',
    ...WORKLOADS.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}`),
    'With --prefill, unless others are named:',
    ...SPLIT_WORKLOADS.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}`),
    'Columns:',
    '  hits        repeated prompts of which at least half was found cached, of all repeated prompts',
    '  cached      prompt tokens found cached',
    '  ttft, itl   time to the first token, and from one token to the next',
    '  tok/s       output tokens a second of all workers together',
    '  queue       most requests that waited in one engine',
    '  not served  requests rejected or failed',
    'With --prefill also:',
    '  split, whole     requests whose prompt a prefill worker computed, and requests that one worker served',
    '  total            mean time to the last token',
    '  moved            KV that crossed the links',
    '  predicted, real  mean time from the end of a prefill to the first token: what routers predicted, and what came',
  ];
}
