import { PROFILES } from '@busbar/mocker';
import { type BaseConfig, field } from '@busbar/service';
import { z } from 'zod';

const [firstProfile = '', ...otherProfiles] = Object.keys(PROFILES);

/** Configuration of a worker besides `baseFields`; `BUSBAR_` and the field's name in capitals is its environment variable. */
export const workerFields = {
  model: field.text(128).default('busbar-mock').describe('Name under which the model is served'),
  modelPath: field
    .text()
    .optional()
    .describe(
      'Folder with tokenizer.json, tokenizer_config.json and config.json; absent takes the built-in tokenizer',
    ),
  engine: field.choice(['mock']).default('mock').describe('Engine that generates'),
  profile: field
    .choice([firstProfile, ...otherProfiles])
    .default('seed-8gb')
    .describe('Timing of the mock engine'),
  blockSize: field.int(1, 4096).default(16).describe('Tokens of one KV block'),
  kvBlocks: field.int(1, 100_000_000).default(926).describe('Blocks of the KV cache'),
  contextTokens: field
    .int(2, 10_000_000)
    .optional()
    .describe('Longest context in tokens; absent takes max_position_embeddings of config.json'),
  kvEvents: field
    .flag()
    .default(true)
    .describe('Whether the engine says what enters and leaves its KV cache'),
  mockSpeed: field
    .number(0.001, 1000)
    .default(1)
    .describe('Speed of the mock engine against its profile'),
};

const workerFieldsSchema = z.object(workerFields);
export type WorkerConfig = BaseConfig & z.infer<typeof workerFieldsSchema>;
