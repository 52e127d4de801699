import { parseArgs } from 'node:util';
import { messageOf } from '@busbar/base';
import { type EngineProfile, PROFILES, profileByName } from '@busbar/mocker';
import { POLICIES, type PolicyName } from '@busbar/routing';
import { SimulatorError } from './errors.ts';
import { choose, positiveNumber, usage, wholeNumber } from './flags.ts';
import { parseSplit, SPLIT_FLAGS, type SplitOptions } from './split/split-options.ts';
import type { WorkerSpec, WorkloadDefinition } from './workload.ts';
import { WORKLOADS } from './workloads/catalog.ts';
import { DEFAULT_TRACE_SCALE } from './workloads/mooncake.ts';
import { SPLIT_WORKLOADS } from './workloads/words.ts';

/** What a person asked `busbar simulate` to do. */
export interface CommandOptions {
  workloads: readonly WorkloadDefinition[];
  policies: readonly PolicyName[];
  seeds: readonly number[];
  profile: EngineProfile;
  workers: number | undefined;
  kvBlocks: readonly number[] | undefined;
  durationMs: number | undefined;
  routers: number;
  kvEvents: boolean;
  tracePath: string | undefined;
  traceScale: number;
  timeScale: number;
  /** With prefill workers. */
  split: SplitOptions | undefined;
  format: 'table' | 'json' | 'markdown';
}

const FLAGS = {
  workload: { type: 'string' },
  policy: { type: 'string' },
  seed: { type: 'string' },
  seeds: { type: 'string' },
  workers: { type: 'string' },
  'kv-blocks': { type: 'string' },
  duration: { type: 'string' },
  routers: { type: 'string' },
  'no-kv-events': { type: 'boolean' },
  trace: { type: 'string' },
  'trace-scale': { type: 'string' },
  'time-scale': { type: 'string' },
  profile: { type: 'string' },
  ...SPLIT_FLAGS,
  json: { type: 'boolean' },
  markdown: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** The flags as options; undefined when help was asked for. Throws `SIMULATOR_USAGE` with a sentence for a person. */
export function parseCommand(args: readonly string[]): CommandOptions | undefined {
  const values = parseFlags(args);
  if (values.help === true) return undefined;
  if (values.seed !== undefined && values.seeds !== undefined) {
    throw usage('give --seed or --seeds, not both');
  }
  const firstSeed = values.seed === undefined ? 1 : wholeNumber('seed', values.seed, 0);
  const seeds = values.seeds === undefined ? 1 : wholeNumber('seeds', values.seeds, 1);
  const split = parseSplit(values);
  const workloads = chooseWorkloads(values.workload, split !== undefined);
  const kvBlocks = values['kv-blocks']?.split(',').map((text) => wholeNumber('kv-blocks', text, 1));
  return {
    workloads: values.trace === undefined || values.workload !== undefined ? workloads : [],
    policies: choose(
      'policy',
      values.policy ?? (split === undefined ? 'all' : 'predictive'),
      POLICIES,
      (policy) => policy,
    ),
    seeds: Array.from({ length: seeds }, (_, i) => firstSeed + i),
    profile: profileOf(values.profile ?? 'seed-8gb'),
    workers: values.workers === undefined ? undefined : wholeNumber('workers', values.workers, 1),
    kvBlocks,
    durationMs:
      values.duration === undefined
        ? undefined
        : positiveNumber('duration', values.duration) * 1000,
    routers: values.routers === undefined ? 1 : wholeNumber('routers', values.routers, 1),
    kvEvents: values['no-kv-events'] !== true,
    tracePath: values.trace,
    traceScale: positiveNumber('trace-scale', values['trace-scale'] ?? String(DEFAULT_TRACE_SCALE)),
    timeScale: positiveNumber('time-scale', values['time-scale'] ?? '1'),
    split,
    format: values.json === true ? 'json' : values.markdown === true ? 'markdown' : 'table',
  };
}

/** The workers of a run: those that the workload is meant for, unless the flags say otherwise. */
export function workersOf(
  { workers, kvBlocks }: Pick<CommandOptions, 'workers' | 'kvBlocks'>,
  workload: WorkloadDefinition,
): readonly WorkerSpec[] {
  const own = workload.workers;
  const count = workers ?? Math.max(own.length, kvBlocks?.length ?? 0);
  return Array.from({ length: count }, (_, i) => {
    const spec = own[i % own.length]!;
    return { ...spec, kvBlocks: kvBlocks?.[i % kvBlocks.length] ?? spec.kvBlocks };
  });
}

/** Without a name, or with `all`, those that the command is about: the general ones, or those of the split. */
function chooseWorkloads(text: string | undefined, isSplit: boolean): WorkloadDefinition[] {
  if (text === undefined || text === 'all') return [...(isSplit ? SPLIT_WORKLOADS : WORKLOADS)];
  return choose('workload', text, [...WORKLOADS, ...SPLIT_WORKLOADS], ({ name }) => name);
}

function parseFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS, allowPositionals: false }).values;
  } catch (error) {
    throw new SimulatorError('SIMULATOR_USAGE', messageOf(error), { cause: error });
  }
}

function profileOf(name: string): EngineProfile {
  const profile = profileByName(name);
  if (profile !== undefined) return profile;
  throw usage(`no profile "${name}"; there are ${Object.keys(PROFILES).join(', ')}`);
}
