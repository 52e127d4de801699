import { readFile } from 'node:fs/promises';
import { AppError, messageOf } from '@busbar/base';
import { createRouterCore, POLICIES } from '@busbar/routing';
import { type CommandOptions, parseCommand, workersOf } from './command-options.ts';
import { type CompareOptions, compare } from './compare.ts';
import { SimulatorError } from './errors.ts';
import { renderPolicyTable } from './policy-table.ts';
import { routerFactory } from './router-factory.ts';
import { renderTable } from './table.ts';
import type { WorkloadDefinition } from './workload.ts';
import { WORKLOADS } from './workloads/catalog.ts';
import { traceWorkload } from './workloads/mooncake.ts';
import { parseMooncakeTrace } from './workloads/mooncake-trace.ts';

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
  const width = Math.max(...WORKLOADS.map((workload) => workload.name.length));
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
    '  --profile NAME           seed-8gb (default), dynamo-mocker or instant',
    '  --routers N              1 by default; requests are dealt out to them in turn',
    '  --no-kv-events           workers claim to send KV events and send none',
    '  --trace FILE             a trace in JSONL as the Mooncake project publishes it (alone, unless --workload is given)',
    '  --trace-scale N          divides its lengths, 8 by default; prompts above 3,500 tokens are cut',
    '  --time-scale X           multiplies its times, 1 by default',
    '  --json, --markdown       instead of the table',
    '',
    `Policies: ${POLICIES.join(', ')}`,
    'Workloads:',
    ...WORKLOADS.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}`),
  ];
}
