import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { limit } from '@busbar/protocol';
import { POLICIES } from '@busbar/routing';
import { z } from 'zod';
import { CliError } from '../errors.ts';
import { nearest } from '../nearest.ts';
import { count } from '../terminal.ts';

/** Values that flags may name. The services check them again; here they give an answer before anything is started. */
export const POLICY_NAMES = POLICIES;
export const PROFILE_NAMES = ['seed-8gb', 'dynamo-mocker', 'instant'] as const;
export const ENGINE_NAMES = ['mock'] as const;

/** The flags of `up` as the command line gives them. */
export interface UpFlags {
  engine: string;
  decode: string;
  routers: string;
  frontends: string;
  model: string;
  modelPath?: string;
  profile: string;
  kvBlocks: string;
  blockSize: string;
  policy: string;
  kvEvents: boolean;
  port: string;
  host: string;
  namespace?: string;
  contextTokens?: string;
  mockSpeed: string;
  detach?: boolean;
}

/** One stack, checked: every list has one value per worker. */
export interface UpOptions {
  engine: (typeof ENGINE_NAMES)[number];
  workers: { kvBlocks: number; speed: number }[];
  routers: number;
  frontends: number;
  model: string;
  modelPath: string | undefined;
  profile: (typeof PROFILE_NAMES)[number];
  blockSize: number;
  policy: (typeof POLICY_NAMES)[number];
  kvEvents: boolean;
  port: number;
  host: string;
  contextTokens: number | undefined;
  isDetached: boolean;
}

const PROCESSES_MAX = 64;

/** Checks all flags against each other. Throws CLI_USAGE with a sentence that names the flag and what would do. */
export function parseUpOptions(flags: UpFlags, cwd: string): UpOptions {
  const decode = integer('--decode', flags.decode, 1, PROCESSES_MAX);
  const blockSize = integer('--block-size', flags.blockSize, 1, 4_096);
  const blocks = perWorker('--kv-blocks', flags.kvBlocks, decode, (value) =>
    integer('--kv-blocks', value, 1, 100_000_000),
  );
  const speeds = perWorker('--mock-speed', flags.mockSpeed, decode, speed);
  const contextTokens =
    flags.contextTokens === undefined
      ? undefined
      : integer('--context-tokens', flags.contextTokens, 1, limit('promptTokens'));
  checkContext(contextTokens, blocks, blockSize);
  return {
    engine: oneOf('--engine', flags.engine, ENGINE_NAMES),
    workers: blocks.map((kvBlocks, i) => ({ kvBlocks, speed: speeds[i]! })),
    routers: integer('--routers', flags.routers, 1, PROCESSES_MAX),
    frontends: integer('--frontends', flags.frontends, 1, PROCESSES_MAX),
    model: modelName(flags.model),
    modelPath: flags.modelPath === undefined ? undefined : modelFolder(flags.modelPath, cwd),
    profile: oneOf('--profile', flags.profile, PROFILE_NAMES),
    blockSize,
    policy: oneOf('--policy', flags.policy, POLICY_NAMES),
    kvEvents: flags.kvEvents,
    port: integer('--port', flags.port, 1, 65_535),
    host: hostName(flags.host),
    contextTokens,
    isDetached: flags.detach === true,
  };
}

function usage(sentence: string): never {
  throw new CliError('CLI_USAGE', sentence);
}

function integer(flag: string, text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    usage(`${flag} takes a whole number from ${count(min)} to ${count(max)}, not "${text}"`);
  }
  return value;
}

function speed(text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value > 0 && value <= 1_000)) {
    usage(`--mock-speed takes numbers above 0 and up to 1,000 (2 is twice as fast), not "${text}"`);
  }
  return value;
}

/** One value for all workers or one for each. */
function perWorker<T>(
  flag: string,
  text: string,
  workers: number,
  parse: (value: string) => T,
): T[] {
  const values = text.split(',').map((part) => parse(part.trim()));
  if (values.length === 1) return Array.from({ length: workers }, () => values[0]!);
  if (values.length !== workers) {
    usage(
      `${flag} has ${values.length} values for ${workers} workers: give one value, or one for each`,
    );
  }
  return values;
}

function oneOf<const T extends readonly string[]>(flag: string, text: string, names: T): T[number] {
  const parsed = z.enum(names).safeParse(text);
  if (parsed.success) return parsed.data;
  const close = nearest(text, names);
  return usage(
    `${flag} does not know "${text}"${close ? `; did you mean ${close}?` : ''} Known: ${names.join(', ')}`,
  );
}

function modelName(text: string): string {
  const max = limit('modelNameChars');
  if (text.length < 1 || text.length > max || /\s/.test(text)) {
    usage(
      `--model takes a name of 1 to ${max} characters without spaces, not "${text.slice(0, max)}"`,
    );
  }
  return text;
}

function modelFolder(text: string, cwd: string): string {
  const folder = resolve(cwd, text);
  if (!existsSync(join(folder, 'tokenizer.json'))) {
    usage(`--model-path needs a folder with tokenizer.json; ${folder} has none`);
  }
  return folder;
}

function hostName(text: string): string {
  if (!/^[A-Za-z0-9.:-]{1,255}$/.test(text))
    usage(`--host takes an address to listen on, not "${text}"`);
  return text;
}

function checkContext(
  contextTokens: number | undefined,
  blocks: readonly number[],
  blockSize: number,
): void {
  const fits = Math.min(...blocks) * blockSize;
  if (contextTokens !== undefined && contextTokens > fits) {
    usage(
      `--context-tokens ${count(contextTokens)} does not fit into ${count(Math.min(...blocks))} blocks of ${blockSize} tokens: at most ${count(fits)}`,
    );
  }
}
