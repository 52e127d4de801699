import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '@busbar/base';
import { z } from 'zod';
import { TokenizerError } from '../errors.ts';
import {
  type TokenizerConfig,
  type TokenizerJson,
  tokenizerConfigSchema,
  tokenizerJsonSchema,
} from '../huggingface/tokenizer-json.ts';

const eosIds = z
  .union([z.int().transform((id) => [id]), z.array(z.int())])
  .nullish()
  .transform((ids) => ids ?? []);
const eosSchema = z.looseObject({ eos_token_id: eosIds });

export interface ModelFiles {
  readonly json: TokenizerJson;
  readonly config: TokenizerConfig;
  /** The text of chat_template.jinja, which goes before the template of the configuration. */
  readonly templateFile: string | undefined;
  /** `eos_token_id` of generation_config.json, else of config.json. */
  readonly eosTokenIds: readonly number[];
}

/** Reads a model folder. Throws TokenizerError TOKENIZER_NOT_FOUND without tokenizer.json, TOKENIZER_INVALID for bad files. */
export async function readModelFiles(folder: string): Promise<ModelFiles> {
  const tokenizer = await readText(folder, 'tokenizer.json');
  if (tokenizer === undefined) {
    throw new TokenizerError('TOKENIZER_NOT_FOUND', `${folder} has no tokenizer.json`);
  }
  const [config, template, generation, model] = await Promise.all([
    readText(folder, 'tokenizer_config.json'),
    readText(folder, 'chat_template.jinja'),
    readText(folder, 'generation_config.json'),
    readText(folder, 'config.json'),
  ]);
  const fromGeneration = parse(eosSchema, generation ?? '{}', 'generation_config.json');
  const fromModel = parse(eosSchema, model ?? '{}', 'config.json');
  const eos = [fromGeneration.eos_token_id, fromModel.eos_token_id];
  return {
    json: parse(tokenizerJsonSchema, tokenizer, 'tokenizer.json'),
    config: parse(tokenizerConfigSchema, config ?? '{}', 'tokenizer_config.json'),
    templateFile: template,
    eosTokenIds: eos.find((ids) => ids.length > 0) ?? [],
  };
}

async function readText(folder: string, name: string): Promise<string | undefined> {
  try {
    return await readFile(join(folder, name), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw new TokenizerError('TOKENIZER_INVALID', `${name}: ${messageOf(error)}`, error);
  }
}

function parse<T>(schema: z.ZodType<T>, text: string, name: string): T {
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    const detail = error instanceof z.ZodError ? z.prettifyError(error) : messageOf(error);
    throw new TokenizerError('TOKENIZER_INVALID', `${name}: ${detail}`, error);
  }
}
