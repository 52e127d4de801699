import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { messageOf } from '@busbar/base';
import { ServiceError } from '@busbar/service';
import { tokenizerDigest } from '@busbar/tokenizer';
import { z } from 'zod';

/** What a model folder says, as far as a worker needs it. */
export interface ModelFiles {
  /** Absolute. */
  path: string;
  /** SHA-256 of tokenizer.json in hex. */
  tokenizerDigest: string;
  /** max_position_embeddings of config.json, when there is one. */
  contextTokens: number | undefined;
}

const modelConfigSchema = z.object({
  max_position_embeddings: z.int().min(2).optional(),
  text_config: z.object({ max_position_embeddings: z.int().min(2).optional() }).optional(),
});

/** Reads a model folder. Rejects with a sentence when tokenizer.json is missing or config.json is broken. */
export async function readModelFiles(folder: string): Promise<ModelFiles> {
  const path = resolve(folder);
  const digest = await tokenizerDigest(path).catch((error: unknown) => {
    const text = `BUSBAR_MODEL_PATH ${path} has no readable tokenizer.json: ${messageOf(error)}.`;
    throw new ServiceError('SERVICE_CONFIG', text, { cause: error });
  });
  return {
    path,
    tokenizerDigest: digest,
    contextTokens: await readContextTokens(join(path, 'config.json')),
  };
}

async function readContextTokens(file: string): Promise<number | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch {
    return undefined; // the file is optional
  }
  try {
    const config = modelConfigSchema.parse(JSON.parse(text));
    return config.max_position_embeddings ?? config.text_config?.max_position_embeddings;
  } catch (error) {
    throw new ServiceError('SERVICE_CONFIG', `${file} cannot be read: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}
