import { basename } from 'node:path';
import { limit } from '@busbar/protocol';
import { DISAGGREGATION_MODES, POLICIES } from '@busbar/routing';
import { SCHEDULINGS, type Scheduling } from '@busbar/service';
import type { Env } from '../context.ts';
import { type Given, given, type UpFlags, written } from './flags.ts';
import {
  contextOf,
  mockPools,
  type Pools,
  PROCESSES_MAX,
  type VllmOptions,
  vllmPools,
} from './pools.ts';
import {
  flag,
  hostName,
  integer,
  modelFolder,
  modelName,
  modelSource,
  oneOf,
  usage,
} from './values.ts';

/** Values that flags may name. The services check them again; here they give an answer before anything is started. */
export const POLICY_NAMES = POLICIES;
export const ENGINE_NAMES = ['mock', 'vllm'] as const;
export const DISAGGREGATION_NAMES = DISAGGREGATION_MODES;

/** When prompts go to prefill workers. */
export interface DisaggregationOptions {
  mode: (typeof DISAGGREGATION_NAMES)[number];
  /** With `threshold`: uncached tokens above which a request is split. */
  thresholdTokens: number | undefined;
  /** Refuse a request that should be split and cannot be, instead of serving it whole. */
  isStrict: boolean;
}

/** One stack, checked. */
export interface UpOptions extends Pools {
  engine: (typeof ENGINE_NAMES)[number];
  /** Of engine `vllm`. */
  vllm: VllmOptions | undefined;
  routers: number;
  frontends: number;
  /** Undefined: what an attached engine calls it. */
  model: string | undefined;
  modelPath: string | undefined;
  /** Undefined: what the engine has. */
  blockSize: number | undefined;
  kvBytesPerToken: number | undefined;
  policy: (typeof POLICY_NAMES)[number];
  disaggregation: DisaggregationOptions;
  kvEvents: boolean;
  port: number;
  host: string;
  contextTokens: number | undefined;
  /** Of nats-server; frontends and routers read the variable themselves. */
  scheduling: Scheduling;
  isDetached: boolean;
}

const BLOCK_TOKENS_MAX = 4_096;
const BLOCK_TOKENS = 16;
const KV_BYTES_MAX = 1_000_000_000;
const THRESHOLD_MAX = 1_000_000;

/**
 * Checks all flags, and the variables that stand in for those not given, against each other. Throws CLI_USAGE with a sentence
 * that names the flag or variable and what would do.
 */
export function parseUpOptions(flags: UpFlags, env: Env, cwd: string): UpOptions {
  const engine = oneOf(given('engine', flags, env), ENGINE_NAMES);
  const pathGiven = given('modelPath', flags, env);
  const readPath = engine === 'vllm' ? modelSource : modelFolder;
  const modelPath = pathGiven === undefined ? undefined : readPath(pathGiven, cwd);
  const parts = engine === 'mock' ? mockParts(flags, env) : vllmParts(flags, env, modelPath);
  return {
    engine,
    ...parts,
    routers: integer(given('routers', flags, env), 1, PROCESSES_MAX),
    frontends: integer(given('frontends', flags, env), 1, PROCESSES_MAX),
    model: modelOf(given('model', flags, env), engine, modelPath),
    modelPath,
    policy: oneOf(given('policy', flags, env), POLICY_NAMES),
    disaggregation: disaggregationOf(flags, env, parts.prefill.length),
    kvEvents: flags.kvEvents && flag('BUSBAR_KV_EVENTS', env['BUSBAR_KV_EVENTS'], true),
    port: integer(given('port', flags, env), 1, 65_535),
    host: hostName(given('host', flags, env)),
    scheduling: schedulingOf(env),
    isDetached: flags.detach === true,
  };
}

/** An empty variable is as none, as for the services. */
function schedulingOf(env: Env): Scheduling {
  const name = 'BUSBAR_SCHEDULING';
  return oneOf({ name, text: env[name] || SCHEDULINGS[0] }, SCHEDULINGS);
}

type EngineParts = Pick<
  UpOptions,
  'decode' | 'prefill' | 'vllm' | 'blockSize' | 'kvBytesPerToken' | 'contextTokens'
>;

function mockParts(flags: UpFlags, env: Env): EngineParts {
  const pools = mockPools(flags, env);
  const blockText = given('blockSize', flags, env);
  const blockSize =
    blockText === undefined ? BLOCK_TOKENS : integer(blockText, 1, BLOCK_TOKENS_MAX);
  const context = given('contextTokens', flags, env);
  return {
    ...pools,
    vllm: undefined,
    blockSize,
    kvBytesPerToken: kvBytes(flags, env),
    contextTokens: context === undefined ? undefined : contextOf(context, pools, blockSize),
  };
}

function vllmParts(flags: UpFlags, env: Env, modelPath: string | undefined): EngineParts {
  const { pools, vllm } = vllmPools(flags, env);
  if (modelPath === undefined && vllm.isStarted) {
    usage(
      '--engine vllm needs --model-path: the folder with the weights, config.json and tokenizer.json, or a name on the hub; without it --vllm-url of engines that run',
    );
  }
  const blockText = given('blockSize', flags, env);
  const context = given('contextTokens', flags, env);
  return {
    ...pools,
    vllm,
    blockSize: blockText === undefined ? undefined : integer(blockText, 1, BLOCK_TOKENS_MAX),
    kvBytesPerToken: kvBytes(flags, env),
    contextTokens: context === undefined ? undefined : integer(context, 1, limit('promptTokens')),
  };
}

function kvBytes(flags: UpFlags, env: Env): number | undefined {
  const bytes = given('kvBytesPerToken', flags, env);
  return bytes === undefined ? undefined : integer(bytes, 1, KV_BYTES_MAX);
}

const MOCK_MODEL = 'busbar-mock';

/** Without a name, a real model is served under that of its folder. */
function modelOf(
  name: Given | undefined,
  engine: UpOptions['engine'],
  modelPath: string | undefined,
): string | undefined {
  if (name !== undefined) return modelName(name);
  if (engine === 'mock') return MOCK_MODEL;
  return modelPath === undefined ? undefined : basename(modelPath);
}

function disaggregationOf(flags: UpFlags, env: Env, prefill: number): DisaggregationOptions {
  const text = given('disaggregation', flags, env);
  const mode = oneOf(text, DISAGGREGATION_NAMES);
  const threshold = given('disaggregationThreshold', flags, env);
  const set = written('disaggregationThreshold', flags, env);
  if (mode !== 'threshold' && set !== undefined) {
    usage(`${set.name} is only read with --disaggregation threshold, and the mode is ${mode}`);
  }
  const strictName = 'BUSBAR_DISAGGREGATION_STRICT';
  const isStrict = flags.disaggregationStrict === true || flag(strictName, env[strictName], false);
  if (isStrict && mode === 'never') {
    usage(
      '--disaggregation-strict refuses what cannot be split, and --disaggregation never splits nothing',
    );
  }
  if (isStrict && mode === 'always' && prefill === 0) {
    usage(
      `${text.name} always with --disaggregation-strict and no prefill worker: every request would be refused; add --prefill`,
    );
  }
  return {
    mode,
    thresholdTokens: mode === 'threshold' ? integer(threshold, 0, THRESHOLD_MAX) : undefined,
    isStrict,
  };
}
