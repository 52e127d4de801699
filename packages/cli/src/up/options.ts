import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { limit } from '@busbar/protocol';
import { POLICIES } from '@busbar/routing';
import { z } from 'zod';
import type { Env } from '../context.ts';
import { CliError } from '../errors.ts';
import { nearest } from '../nearest.ts';
import { count } from '../terminal.ts';
import { type Given, given, type UpFlags } from './flags.ts';

/** Values that flags may name. The services check them again; here they give an answer before anything is started. */
export const POLICY_NAMES = POLICIES;
export const PROFILE_NAMES = ['seed-8gb', 'dynamo-mocker', 'instant'] as const;
export const ENGINE_NAMES = ['mock'] as const;

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

/**
 * Checks all flags, and the variables that stand in for those not given, against each other. Throws CLI_USAGE with a sentence
 * that names the flag or variable and what would do.
 */
export function parseUpOptions(flags: UpFlags, env: Env, cwd: string): UpOptions {
  const decode = integer(given('decode', flags, env), 1, PROCESSES_MAX);
  const blockSize = integer(given('blockSize', flags, env), 1, 4_096);
  const blocks = perWorker(given('kvBlocks', flags, env), decode, (value) =>
    integer(value, 1, 100_000_000),
  );
  const speeds = perWorker(given('mockSpeed', flags, env), decode, speed);
  const context = given('contextTokens', flags, env);
  const modelPath = given('modelPath', flags, env);
  return {
    engine: oneOf(given('engine', flags, env), ENGINE_NAMES),
    workers: blocks.map((kvBlocks, i) => ({ kvBlocks, speed: speeds[i]! })),
    routers: integer(given('routers', flags, env), 1, PROCESSES_MAX),
    frontends: integer(given('frontends', flags, env), 1, PROCESSES_MAX),
    model: modelName(given('model', flags, env)),
    modelPath: modelPath === undefined ? undefined : modelFolder(modelPath, cwd),
    profile: oneOf(given('profile', flags, env), PROFILE_NAMES),
    blockSize,
    policy: oneOf(given('policy', flags, env), POLICY_NAMES),
    kvEvents: flags.kvEvents && wantsKvEvents(env['BUSBAR_KV_EVENTS']),
    port: integer(given('port', flags, env), 1, 65_535),
    host: hostName(given('host', flags, env)),
    contextTokens: context === undefined ? undefined : contextOf(context, blocks, blockSize),
    isDetached: flags.detach === true,
  };
}

function usage(sentence: string): never {
  throw new CliError('CLI_USAGE', sentence);
}

function integer({ name, text }: Given, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    usage(`${name} takes a whole number from ${count(min)} to ${count(max)}, not "${text}"`);
  }
  return value;
}

function speed({ name, text }: Given): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value > 0 && value <= 1_000)) {
    usage(`${name} takes numbers above 0 and up to 1,000 (2 is twice as fast), not "${text}"`);
  }
  return value;
}

/** One value for all workers or one for each. */
function perWorker<T>({ name, text }: Given, workers: number, parse: (value: Given) => T): T[] {
  const values = text.split(',').map((part) => parse({ name, text: part.trim() }));
  if (values.length === 1) return Array.from({ length: workers }, () => values[0]!);
  if (values.length !== workers) {
    usage(
      `${name} has ${values.length} values for ${workers} workers: give one value, or one for each`,
    );
  }
  return values;
}

function oneOf<const T extends readonly string[]>({ name, text }: Given, names: T): T[number] {
  const parsed = z.enum(names).safeParse(text);
  if (parsed.success) return parsed.data;
  const close = nearest(text, names);
  return usage(
    `${name} does not know "${text}"${close ? `; did you mean ${close}?` : '.'} Known: ${names.join(', ')}`,
  );
}

function modelName({ name, text }: Given): string {
  const max = limit('modelNameChars');
  if (text.trim() !== text || text.length < 1 || text.length > max || /\p{Cc}/u.test(text)) {
    usage(
      `${name} takes a name of 1 to ${max} characters, none of them at its ends a space and none a control character, not "${text.slice(0, max)}"`,
    );
  }
  return text;
}

function modelFolder({ name, text }: Given, cwd: string): string {
  const folder = resolve(cwd, text);
  if (!existsSync(join(folder, 'tokenizer.json'))) {
    usage(`${name} needs a folder with tokenizer.json; ${folder} has none`);
  }
  return folder;
}

function hostName({ name, text }: Given): string {
  if (!/^[A-Za-z0-9.:-]{1,255}$/.test(text))
    usage(`${name} takes an address to listen on, not "${text}"`);
  return text;
}

function contextOf(context: Given, blocks: readonly number[], blockSize: number): number {
  const tokens = integer(context, 1, limit('promptTokens'));
  const least = Math.min(...blocks);
  if (tokens > least * blockSize) {
    usage(
      `${context.name} ${count(tokens)} does not fit into ${count(least)} blocks of ${blockSize} tokens: at most ${count(least * blockSize)}`,
    );
  }
  return tokens;
}

/** The spellings that the services take for a flag; unset is true. */
function wantsKvEvents(text: string | undefined): boolean {
  if (!text) return true;
  const parsed = z.stringbool().safeParse(text);
  return parsed.success
    ? parsed.data
    : usage(`BUSBAR_KV_EVENTS takes true or false, not "${text}"`);
}
