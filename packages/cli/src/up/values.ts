import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { limit } from '@busbar/protocol';
import { z } from 'zod';
import { CliError } from '../errors.ts';
import { nearest } from '../terminal/nearest.ts';
import { count } from '../terminal/terminal.ts';
import type { Given } from './flags.ts';

/** Throws CLI_USAGE with this sentence. */
export function usage(sentence: string): never {
  throw new CliError('CLI_USAGE', sentence);
}

/** A whole number within bounds. Throws CLI_USAGE, as all here do. */
export function integer({ name, text }: Given, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    usage(`${name} takes a whole number from ${count(min)} to ${count(max)}, not "${text}"`);
  }
  return value;
}

/** Speed against a profile. */
export function speed({ name, text }: Given): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value > 0 && value <= 1_000)) {
    usage(`${name} takes numbers above 0 and up to 1,000 (2 is twice as fast), not "${text}"`);
  }
  return value;
}

/** One value for all workers of a pool or one for each. */
export function perWorker<T>(
  { name, text }: Given,
  workers: number,
  parse: (value: Given) => T,
): T[] {
  const values = text.split(',').map((part) => parse({ name, text: part.trim() }));
  if (values.length === 1) return Array.from({ length: workers }, () => values[0]!);
  if (values.length !== workers) {
    usage(
      `${name} has ${values.length} values for ${workers} workers: give one value, or one for each`,
    );
  }
  return values;
}

/** One of `names`; a name that is nearly one is told which. */
export function oneOf<const T extends readonly string[]>(
  { name, text }: Given,
  names: T,
): T[number] {
  const parsed = z.enum(names).safeParse(text);
  if (parsed.success) return parsed.data;
  const close = nearest(text, names);
  return usage(
    `${name} does not know "${text}"${close ? `; did you mean ${close}?` : '.'} Known: ${names.join(', ')}`,
  );
}

/** A name as the wire takes it. */
export function modelName({ name, text }: Given): string {
  const max = limit('modelNameChars');
  if (text.trim() !== text || text.length < 1 || text.length > max || /\p{Cc}/u.test(text)) {
    usage(
      `${name} takes a name of 1 to ${max} characters, none of them at its ends a space and none a control character, not "${text.slice(0, max)}"`,
    );
  }
  return text;
}

/** The absolute path of a folder that has a tokenizer. */
export function modelFolder({ name, text }: Given, cwd: string): string {
  const folder = resolve(cwd, text);
  if (!existsSync(join(folder, 'tokenizer.json'))) {
    usage(`${name} needs a folder with tokenizer.json; ${folder} has none`);
  }
  return folder;
}

/** A folder as above, or the name of a model on the hub. */
export function modelSource(text: Given, cwd: string): string {
  const isName = /^[\w.-]+\/[\w.-]+$/.test(text.text) && !existsSync(resolve(cwd, text.text));
  return isName ? text.text : modelFolder(text, cwd);
}

/** An address to listen on, not looked up. */
export function hostName({ name, text }: Given): string {
  if (!/^[A-Za-z0-9.:-]{1,255}$/.test(text))
    usage(`${name} takes an address to listen on, not "${text}"`);
  return text;
}

/** An `http` or `https` URL without its last slash. */
export function httpUrl({ name, text }: Given): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    usage(`${name} takes URLs such as http://127.0.0.1:8001, not "${text}"`);
  }
  return text.replace(/\/+$/, '');
}

/** The spellings that the services take for a flag; unset is `fallback`. */
export function flag(name: string, text: string | undefined, fallback: boolean): boolean {
  if (!text) return fallback;
  const parsed = z.stringbool().safeParse(text);
  return parsed.success ? parsed.data : usage(`${name} takes true or false, not "${text}"`);
}
