import { z } from 'zod';

const addedToken = z.looseObject({
  id: z.int().nonnegative(),
  content: z.string().min(1),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().default(false),
  special: z.boolean().default(false),
});
export type AddedToken = z.infer<typeof addedToken>;

const component = z.looseObject({ type: z.string() }).nullish().default(null);

/** The parts of a tokenizer.json that this package looks into itself; the rest passes through untouched. */
export const tokenizerJsonSchema = z.looseObject({
  added_tokens: z.array(addedToken).default([]),
  normalizer: component,
  pre_tokenizer: component,
  post_processor: component,
  decoder: component,
  model: z.looseObject({
    type: z.enum(['BPE', 'WordPiece', 'Unigram', 'WordLevel']).optional(),
    vocab: z.custom<object>((vocab) => typeof vocab === 'object' && vocab !== null),
  }),
});
export type TokenizerJson = z.infer<typeof tokenizerJsonSchema>;

const maybeToken = z
  .union([z.string(), z.looseObject({ content: z.string() }).transform((token) => token.content)])
  .nullish();

/** The parts of a tokenizer_config.json that matter for encoding and templates. */
export const tokenizerConfigSchema = z.looseObject({
  bos_token: maybeToken,
  eos_token: maybeToken,
  unk_token: maybeToken,
  pad_token: maybeToken,
  additional_special_tokens: z.array(maybeToken).nullish(),
  remove_space: z.boolean().nullish(),
  do_lowercase_and_remove_accent: z.boolean().nullish(),
  chat_template: z
    .union([z.string(), z.array(z.object({ name: z.string(), template: z.string() }))])
    .nullish(),
});
export type TokenizerConfig = z.infer<typeof tokenizerConfigSchema>;
