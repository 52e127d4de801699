import { limit } from '@busbar/protocol';
import { z } from 'zod';
import { seedSchema } from './seed.ts';

const stopText = z.string().min(1).max(limit('stopStringChars'));
const flag = z.boolean().nullish();
const maxTokens = z.int().min(1).max(limit('outputTokens')).nullish();

/** Fields that both endpoints share. `null` is the same as absent: several clients send it. */
export const sharedFields = {
  model: z.string().min(1),
  max_tokens: maxTokens,
  max_completion_tokens: maxTokens,
  min_tokens: z.int().min(0).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: z.int().min(-1).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  n: z.int().min(1).max(limit('candidates')).nullish(),
  stop: z.union([stopText, z.array(stopText).max(limit('stopStrings'))]).nullish(),
  stop_token_ids: z.array(z.int().min(0)).max(limit('stopTokenIds')).nullish(),
  stream: flag,
  stream_options: z.object({ include_usage: flag, continuous_usage_stats: flag }).nullish(),
  seed: seedSchema.nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  repetition_penalty: z.number().positive().nullish(),
  logit_bias: z.record(z.string().regex(/^\d{1,10}$/), z.number().min(-100).max(100)).nullish(),
  ignore_eos: flag,
  cache_salt: z.string().min(1).max(limit('cacheSaltChars')).nullish(),
};

const sharedSchema = z.object(sharedFields);
export type SharedFields = z.infer<typeof sharedSchema>;

/** How tokens are chosen; only what the client set. `seed` is that of candidate 0. */
export interface SamplingParams {
  temperature?: number;
  topP?: number;
  topK?: number;
  minP?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  repetitionPenalty?: number;
  seed?: number;
  logitBias?: Record<string, number>;
}

/** What both endpoints ask of generation, in one shape. */
export interface GenerationParams {
  /** Candidates of each prompt. */
  candidates: number;
  /** Undefined when the client leaves it to the server. */
  maxTokens: number | undefined;
  /** The field that set `maxTokens`, for error messages. */
  maxTokensField: 'max_tokens' | 'max_completion_tokens';
  minTokens: number;
  ignoreEos: boolean;
  stop: string[];
  stopTokenIds: number[];
  isStream: boolean;
  includeUsage: boolean;
  /** Every event of a stream says how many tokens there are so far; only with `includeUsage`. */
  continuousUsage: boolean;
  cacheSalt: string | undefined;
  sampling: SamplingParams;
}

export function toGenerationParams(fields: SharedFields): GenerationParams {
  const { stop, stream_options: options } = fields;
  const includeUsage = options?.include_usage ?? false;
  const stops = stop === undefined || stop === null ? [] : typeof stop === 'string' ? [stop] : stop;
  return {
    candidates: fields.n ?? 1,
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens ?? undefined,
    maxTokensField:
      (fields.max_completion_tokens ?? undefined) === undefined
        ? 'max_tokens'
        : 'max_completion_tokens',
    minTokens: fields.min_tokens ?? 0,
    ignoreEos: fields.ignore_eos ?? false,
    stop: stops.map((text) => text.toWellFormed()),
    stopTokenIds: fields.stop_token_ids ?? [],
    isStream: fields.stream ?? false,
    includeUsage,
    continuousUsage: includeUsage && (options?.continuous_usage_stats ?? false),
    cacheSalt: fields.cache_salt?.toWellFormed(),
    sampling: toSampling(fields),
  };
}

function toSampling(fields: SharedFields): SamplingParams {
  const sampling: SamplingParams = {};
  if (isSet(fields.temperature)) sampling.temperature = fields.temperature;
  if (isSet(fields.top_p)) sampling.topP = fields.top_p;
  if (isSet(fields.top_k)) sampling.topK = fields.top_k;
  if (isSet(fields.min_p)) sampling.minP = fields.min_p;
  if (isSet(fields.presence_penalty)) sampling.presencePenalty = fields.presence_penalty;
  if (isSet(fields.frequency_penalty)) sampling.frequencyPenalty = fields.frequency_penalty;
  if (isSet(fields.repetition_penalty)) sampling.repetitionPenalty = fields.repetition_penalty;
  if (isSet(fields.seed)) sampling.seed = fields.seed;
  if (isSet(fields.logit_bias)) sampling.logitBias = fields.logit_bias;
  return sampling;
}

function isSet<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined;
}
