import { isObject } from './json-body.ts';
import { invalid, type Problem } from './problem.ts';

/** The two endpoints that generate, by their path. */
export type Endpoint = keyof typeof PATHS;

const PATHS = { chat: '/v1/chat/completions', completion: '/v1/completions' } as const;

/** What Busbar does with one field of the API. */
export interface FieldRule {
  /**
   * `honoured` fields have a schema; `ignored` ones change nothing of the answer and only must be what they `mustBe`; `refused` ones answer
   * 400 unless `harmless`.
   */
  use: 'honoured' | 'ignored' | 'refused';
  why: string;
  /** Values of a refused field that ask for nothing, so that clients which always send them still work. */
  harmless?: (value: unknown) => boolean;
  mustBe?: keyof typeof SHAPES;
  /** An honoured field that only this endpoint has; the other refuses it unless `harmless`. */
  only?: Endpoint;
}

const isBoolean = (value: unknown): boolean => typeof value === 'boolean';

/** What an ignored field may be, in words that end the sentence "`field` must be …". */
const SHAPES = {
  'a text': (value: unknown): boolean => typeof value === 'string',
  'true or false': isBoolean,
  'an object': isObject,
} as const;

const honoured = (why: string): FieldRule => ({ use: 'honoured', why });
const ignored = (why: string, mustBe: keyof typeof SHAPES): FieldRule => ({
  use: 'ignored',
  why,
  mustBe,
});
const onlyOf = (
  only: Endpoint,
  why: string,
  harmless?: (value: unknown) => boolean,
): FieldRule => ({ use: 'honoured', why, only, ...(harmless === undefined ? {} : { harmless }) });
const refused = (why: string, harmless?: (value: unknown) => boolean): FieldRule =>
  harmless === undefined ? { use: 'refused', why } : { use: 'refused', why, harmless };

const isFalse = (value: unknown): boolean => value === false;
const isTrue = (value: unknown): boolean => value === true;
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
const isTextOnly = (value: unknown): boolean =>
  Array.isArray(value) && value.every((item) => item === 'text');
const isTextFormat = (value: unknown): boolean =>
  isObject(value) && (value['type'] === 'text' || value['type'] === undefined);
const isEmptyObject = (value: unknown): boolean =>
  isObject(value) && Object.keys(value).length === 0;
const isLooseChoice = (value: unknown): boolean => value === 'none' || value === 'auto';

/** Why no client steers the stack. */
export const INTERNAL = 'is set by Busbar itself and never taken from clients';
const structured = 'structured output is not supported';
const noLogprobs = 'log probabilities are not supported';

/** Every field that clients are known to send. Fields that are not here are ignored. */
export const FIELD_RULES: Readonly<Record<string, FieldRule>> = {
  model: honoured('names the model'),
  messages: onlyOf('chat', 'the conversation, rendered by the chat template'),
  prompt: onlyOf('completion', 'a text, texts, token ids or lists of token ids'),
  max_tokens: honoured('the older name of max_completion_tokens'),
  max_completion_tokens: honoured('wins over max_tokens'),
  temperature: honoured('0 to 2'),
  top_p: honoured('0 to 1'),
  n: honoured('candidates of each prompt'),
  stop: honoured('texts that end the answer and are not shown'),
  stream: honoured('server-sent events'),
  stream_options: honoured('include_usage, and continuous_usage_stats with it'),
  seed: honoured('64 bits; candidate i uses seed + i, or another one each above 2^53'),
  presence_penalty: honoured('-2 to 2'),
  frequency_penalty: honoured('-2 to 2'),
  logit_bias: honoured('token id to -100..100'),
  tools: onlyOf('chat', 'rendered into the prompt by the chat template', isEmptyList),
  ignore_eos: honoured('go on behind the end-of-text token'),
  min_tokens: honoured('no end before so many tokens'),
  top_k: honoured('-1 or 0 is off'),
  min_p: honoured('0 to 1'),
  repetition_penalty: honoured('above 0'),
  stop_token_ids: honoured('token ids that end the answer'),
  cache_salt: honoured('separates the prefix cache of this caller from others'),
  chat_template_kwargs: onlyOf('chat', 'variables for the chat template', isEmptyObject),
  add_generation_prompt: onlyOf('chat', 'false renders the messages only', isBoolean),
  reasoning_effort: onlyOf('chat', 'a variable for the chat template'),
  tool_choice: refused('forcing a tool call is not supported', isLooseChoice),
  response_format: refused(structured, isTextFormat),
  logprobs: refused(noLogprobs, isFalse),
  top_logprobs: refused(noLogprobs, (value) => value === 0),
  prompt_logprobs: refused(noLogprobs),
  functions: refused('is the retired form of tools', isEmptyList),
  function_call: refused('is the retired form of tool_choice', isLooseChoice),
  modalities: refused('only text is supported', isTextOnly),
  audio: refused('only text is supported'),
  prediction: refused('predicted output is not supported'),
  web_search_options: refused('web search is not supported'),
  echo: refused('repeating the prompt is not supported', isFalse),
  suffix: refused('inserting before a suffix is not supported', (value) => value === ''),
  best_of: refused('choosing the best of several is not supported', (value) => value === 1),
  use_beam_search: refused('beam search is not supported', isFalse),
  guided_json: refused(structured),
  guided_regex: refused(structured),
  guided_choice: refused(structured),
  guided_grammar: refused(structured),
  structured_outputs: refused(structured),
  bad_words: refused('is not supported', isEmptyList),
  allowed_token_ids: refused('is not supported'),
  logits_processors: refused('is not supported', isEmptyList),
  truncate_prompt_tokens: refused('prompts are never cut silently'),
  prompt_embeds: refused('embeddings as a prompt are not supported'),
  return_token_ids: refused('token ids in answers are not supported', isFalse),
  return_tokens_as_token_ids: refused('token ids in answers are not supported', isFalse),
  skip_special_tokens: refused('special tokens are never shown', isTrue),
  include_stop_str_in_output: refused('stop texts are never shown', isFalse),
  continue_final_message: refused('is not supported', isFalse),
  chat_template: refused("only the model's own template is used"),
  documents: refused('is not supported', isEmptyList),
  kv_transfer_params: refused(INTERNAL),
  ec_transfer_params: refused(INTERNAL),
  data_parallel_rank: refused(INTERNAL),
  nvext: refused('is an extension of another server'),
  vllm_xargs: refused('reaches into an engine past Busbar', isEmptyObject),
  priority: refused('all requests are equal', (value) => value === 0),
  verbosity: refused('is not supported', (value) => value === 'medium'),
  include_reasoning: refused('reasoning is a part of the text', isTrue),
  thinking_token_budget: refused('is not supported'),
  length_penalty: refused('beam search is not supported', (value) => value === 1),
  early_stopping: refused('beam search is not supported', isFalse),
  mm_processor_kwargs: refused('only text is supported', isEmptyObject),
  media_io_kwargs: refused('only text is supported', isEmptyObject),
  user: ignored('no per-user state is kept', 'a text'),
  metadata: ignored('answers are not stored', 'an object'),
  store: ignored('answers are not stored', 'true or false'),
  service_tier: ignored('there is one tier', 'a text'),
  safety_identifier: ignored('no per-user state is kept', 'a text'),
  prompt_cache_key: ignored('the router finds cached prefixes by their content', 'a text'),
  prompt_cache_retention: ignored('the prefix cache keeps what was used last', 'a text'),
  parallel_tool_calls: ignored('tool calls are not parsed', 'true or false'),
  request_id: ignored('ids are made by the server; X-Request-Id is echoed', 'a text'),
  spaces_between_special_tokens: ignored('special tokens are never shown', 'true or false'),
};

const RULES = new Map(Object.entries(FIELD_RULES));

/** The first field of a body that is refused, or ignored and not even of its type. Null and absent are the same. */
export function findUnfitField(
  body: Record<string, unknown>,
  endpoint: Endpoint,
): Problem | undefined {
  for (const key of Object.keys(body)) {
    const value = body[key];
    if (value === null || value === undefined) continue;
    const rule = RULES.get(key);
    if (rule === undefined) continue;
    const refusal = refusalOf(rule, endpoint);
    if (refusal !== undefined && rule.harmless?.(value) !== true) return unsupported(key, refusal);
    if (rule.mustBe !== undefined && !SHAPES[rule.mustBe](value)) {
      return invalid(`\`${key}\` must be ${rule.mustBe}.`, key);
    }
  }
  return undefined;
}

/** Why the endpoint does not take a field with this rule. */
function refusalOf({ use, why, only }: FieldRule, endpoint: Endpoint): string | undefined {
  if (only !== undefined && only !== endpoint) return `is a field of ${PATHS[only]} only`;
  return use === 'refused' ? why : undefined;
}

/** A field that is not taken. `why` goes on in the sentence when it begins with a verb. */
export function unsupported(param: string, why: string): Problem {
  const joint = why.startsWith('is ') ? ' ' : ': ';
  return invalid(`\`${param}\`${joint}${why}.`, param, 'unsupported_parameter');
}
