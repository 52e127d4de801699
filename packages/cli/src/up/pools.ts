import { PROFILE_NAMES } from '@busbar/mocker';
import { limit } from '@busbar/protocol';
import type { Env } from '../context.ts';
import { count } from '../terminal/terminal.ts';
import { type Given, given, type UpFlags, written } from './flags.ts';
import { httpUrl, integer, oneOf, perWorker, speed, usage } from './values.ts';

export const KV_CONNECTOR_NAMES = ['nixl', 'mooncake', 'none'] as const;

/** What is set for one worker alone. */
export type WorkerOptions =
  | { engine: 'mock'; kvBlocks: number; speed: number; profile: string }
  /** `url` names a vLLM that runs already; without it the worker starts one, on these GPUs (`0,1`) or on those it finds. */
  | { engine: 'vllm'; url: string | undefined; gpus: string | undefined };

/** The workers of a stack by role. A list has one entry for each process. */
export interface Pools {
  decode: WorkerOptions[];
  prefill: WorkerOptions[];
}

/** How workers run vLLM. What is absent is left to the service. */
export interface VllmOptions {
  /** Workers start it; otherwise it runs already. */
  isStarted: boolean;
  command: string | undefined;
  args: string | undefined;
  kvConnector: (typeof KV_CONNECTOR_NAMES)[number];
}

/** Of one role, on one machine. */
export const PROCESSES_MAX = 64;
const KV_BLOCKS_MAX = 100_000_000;
const COMMAND_CHARS_MAX = 4_096;

/** Settings that only one engine has; with the other they would be read by nobody. */
const MOCK_ONLY = [
  'profile',
  'prefillProfile',
  'kvBlocks',
  'prefillKvBlocks',
  'mockSpeed',
  'prefillMockSpeed',
] as const;
const PREFILL_ONLY = ['prefillProfile', 'prefillKvBlocks', 'prefillMockSpeed'] as const;
const VLLM_ONLY = ['vllmCommand', 'vllmArgs', 'vllmUrl', 'vllmGpus', 'kvConnector'] as const;

/** Ports of a worker; a fixed one serves only where a single worker runs. */
const PORT_VARIABLES = [
  'BUSBAR_TRANSFER_PORT',
  'BUSBAR_VLLM_PORT',
  'BUSBAR_KV_CONNECTOR_PORT',
] as const;

/** How many workers of each role. Throws CLI_USAGE for prefill workers without one that decodes. */
function poolSizes(flags: UpFlags, env: Env): { decode: number; prefill: number } {
  const prefill = integer(given('prefill', flags, env), 0, PROCESSES_MAX);
  const text = given('decode', flags, env);
  if (text.text === '0' && prefill > 0) {
    usage(
      `${text.name} 0 with --prefill ${prefill}: a prefill worker only computes prompts for decode workers and serves nobody alone; --decode takes at least 1`,
    );
  }
  const decode = integer(text, 1, PROCESSES_MAX);
  const taken = PORT_VARIABLES.find((name) => env[name] && env[name] !== '0');
  if (taken !== undefined && decode + prefill > 1) {
    usage(
      `${taken} is one port, and ${decode + prefill} workers on this machine need one each: leave it out, and each takes a free one`,
    );
  }
  if (prefill === 0) {
    for (const name of PREFILL_ONLY) {
      const set = written(name, flags, env);
      if (set !== undefined) usage(`${set.name} is for prefill workers: add --prefill`);
    }
  }
  return { decode, prefill };
}

/** Workers with the mock engine. Values of prefill workers that are not given are those of the first decode worker. */
export function mockPools(flags: UpFlags, env: Env): Pools {
  refuse(VLLM_ONLY, flags, env, 'mock');
  const sizes = poolSizes(flags, env);
  const blocks = (value: Given): number => integer(value, 1, KV_BLOCKS_MAX);
  const profile = oneOf(given('profile', flags, env), PROFILE_NAMES);
  const decodeBlocks = perWorker(given('kvBlocks', flags, env), sizes.decode, blocks);
  const decodeSpeeds = perWorker(given('mockSpeed', flags, env), sizes.decode, speed);
  const ownProfile = given('prefillProfile', flags, env);
  const ownBlocks = given('prefillKvBlocks', flags, env);
  const ownSpeeds = given('prefillMockSpeed', flags, env);
  const prefillBlocks = ownBlocks && perWorker(ownBlocks, sizes.prefill, blocks);
  const prefillSpeeds = ownSpeeds && perWorker(ownSpeeds, sizes.prefill, speed);
  const prefillProfile = ownProfile === undefined ? profile : oneOf(ownProfile, PROFILE_NAMES);
  return {
    decode: decodeBlocks.map((kvBlocks, i) => ({
      engine: 'mock',
      kvBlocks,
      speed: decodeSpeeds[i]!,
      profile,
    })),
    prefill: Array.from({ length: sizes.prefill }, (_, i) => ({
      engine: 'mock',
      kvBlocks: prefillBlocks?.[i] ?? decodeBlocks[0]!,
      speed: prefillSpeeds?.[i] ?? decodeSpeeds[0]!,
      profile: prefillProfile,
    })),
  };
}

/** Workers with vLLM, and how they run it. URLs are dealt out to decode workers first. */
export function vllmPools(flags: UpFlags, env: Env): { pools: Pools; vllm: VllmOptions } {
  refuse(MOCK_ONLY, flags, env, 'vllm');
  const sizes = poolSizes(flags, env);
  const urls = urlsOf(given('vllmUrl', flags, env), sizes.decode + sizes.prefill);
  const command = given('vllmCommand', flags, env);
  if (command !== undefined && urls !== undefined) {
    usage(
      `${command.name} starts a vLLM and --vllm-url attaches to one that runs: give one of them`,
    );
  }
  const gpus = gpusOf(given('vllmGpus', flags, env), sizes.decode + sizes.prefill);
  if (gpus !== undefined && urls !== undefined) {
    usage('--vllm-gpus is for vLLMs that are started here, and --vllm-url names some that run');
  }
  const workers = Array.from(
    { length: sizes.decode + sizes.prefill },
    (_, i): WorkerOptions => ({ engine: 'vllm', url: urls?.[i], gpus: gpus?.[i] }),
  );
  const connector = given('kvConnector', flags, env);
  const fallback = sizes.prefill > 0 ? 'nixl' : 'none';
  const kvConnector = connector === undefined ? fallback : oneOf(connector, KV_CONNECTOR_NAMES);
  if (kvConnector === 'none' && sizes.prefill > 0) {
    usage(
      `${connector?.name ?? '--kv-connector'} none with --prefill ${sizes.prefill}: without a connector no KV can leave a prefill worker; use nixl or mooncake`,
    );
  }
  return {
    pools: { decode: workers.slice(0, sizes.decode), prefill: workers.slice(sizes.decode) },
    vllm: {
      isStarted: urls === undefined,
      command: line(command),
      args: line(given('vllmArgs', flags, env)),
      kvConnector,
    },
  };
}

/** Tokens of context, which the smallest cache must hold. */
export function contextOf(context: Given, { decode, prefill }: Pools, blockSize: number): number {
  const tokens = integer(context, 1, limit('promptTokens'));
  const blocks = [...decode, ...prefill].flatMap((worker) =>
    worker.engine === 'mock' ? [worker.kvBlocks] : [],
  );
  const least = Math.min(...blocks);
  if (tokens > least * blockSize) {
    usage(
      `${context.name} ${count(tokens)} does not fit into ${count(least)} blocks of ${blockSize} tokens: at most ${count(least * blockSize)}`,
    );
  }
  return tokens;
}

/** `0,1` is one GPU each; `0+1,2+3` two each. */
function gpusOf(text: Given | undefined, workers: number): string[] | undefined {
  if (text === undefined) return undefined;
  const parts = text.text.split(',').map((part) => part.trim());
  if (!parts.every((part) => /^\d+(\+\d+)*$/.test(part))) {
    usage(`${text.name} takes numbers of GPUs such as 0,1 or 0+1,2+3, not "${text.text}"`);
  }
  if (parts.length !== workers) {
    usage(
      `${text.name} has ${parts.length} values for ${workers} workers: give one for each, those of decode workers first`,
    );
  }
  return parts.map((part) => part.replaceAll('+', ','));
}

/** One URL cannot be shared: two workers would announce the same cache. */
function urlsOf(text: Given | undefined, workers: number): string[] | undefined {
  if (text === undefined) return undefined;
  const urls = text.text.split(',').map((part) => httpUrl({ name: text.name, text: part.trim() }));
  if (urls.length !== workers) {
    usage(
      `${text.name} has ${urls.length} URLs for ${workers} workers: give one vLLM for each, those of decode workers first`,
    );
  }
  if (new Set(urls).size < urls.length) usage(`${text.name} names one vLLM twice`);
  return urls;
}

function line(text: Given | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (/\p{Cc}/u.test(text.text) || text.text.length > COMMAND_CHARS_MAX) {
    usage(`${text.name} takes one line of up to ${count(COMMAND_CHARS_MAX)} characters`);
  }
  return text.text;
}

function refuse(
  names: readonly (typeof MOCK_ONLY | typeof VLLM_ONLY)[number][],
  flags: UpFlags,
  env: Env,
  engine: 'mock' | 'vllm',
): void {
  const other = engine === 'mock' ? 'vllm' : 'mock';
  for (const name of names) {
    const set = written(name, flags, env);
    if (set === undefined) continue;
    const instead =
      name === 'kvBlocks' ? '; vLLM takes --vllm-args "--num-gpu-blocks-override N"' : '';
    usage(`${set.name} is for engine ${other}, and this stack runs ${engine}${instead}`);
  }
}
