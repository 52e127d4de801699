import { parseArgs } from 'node:util';
import { messageOf } from '@busbar/base';
import { type EngineProfile, PROFILES, profileByName } from '@busbar/mocker';
import { POLICIES, type PolicyName } from '@busbar/routing';
import { SimulatorError } from './errors.ts';
import type { WorkerSpec, WorkloadDefinition } from './workload.ts';
import { WORKLOADS } from './workloads/catalog.ts';
import { DEFAULT_TRACE_SCALE } from './workloads/mooncake.ts';

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
  const workloads = choose('workload', values.workload, WORKLOADS, (workload) => workload.name);
  const kvBlocks = values['kv-blocks']?.split(',').map((text) => wholeNumber('kv-blocks', text, 1));
  return {
    workloads: values.trace === undefined || values.workload !== undefined ? workloads : [],
    policies: choose('policy', values.policy, POLICIES, (policy) => policy),
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

function parseFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: FLAGS, allowPositionals: false }).values;
  } catch (error) {
    throw new SimulatorError('SIMULATOR_USAGE', messageOf(error), { cause: error });
  }
}

/** The named ones of a comma list, in its order; all without a list or with `all`. */
function choose<T>(
  flag: string,
  text: string | undefined,
  all: readonly T[],
  nameOf: (choice: T) => string,
): T[] {
  if (text === undefined || text === 'all') return [...all];
  return text.split(',').map((name) => {
    const found = all.find((choice) => nameOf(choice) === name);
    if (found !== undefined) return found;
    throw usage(`no ${flag} "${name}"; there are ${all.map(nameOf).join(', ')}`);
  });
}

function profileOf(name: string): EngineProfile {
  const profile = profileByName(name);
  if (profile !== undefined) return profile;
  throw usage(`no profile "${name}"; there are ${Object.keys(PROFILES).join(', ')}`);
}

function wholeNumber(flag: string, text: string, least: number): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least) return value;
  throw usage(`--${flag} takes whole numbers from ${least}, not "${text}"`);
}

function positiveNumber(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw usage(`--${flag} takes a number above 0, not "${text}"`);
}

function usage(message: string): SimulatorError {
  return new SimulatorError('SIMULATOR_USAGE', message);
}
