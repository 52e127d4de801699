import { Tokenizer } from '@huggingface/tokenizers';

/** The parts of the library's tokenizer that this package uses. */
export interface HfTokenizer {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  decode(ids: number[], options: { clean_up_tokenization_spaces: boolean }): string;
  /** `vocab` is the spelling of every id, `tokens_to_ids` the way back; both with the added tokens. */
  model: { vocab: (string | undefined)[]; readonly tokens_to_ids: ReadonlyMap<string, number> };
  readonly pre_tokenizer: unknown;
}

/**
 * The library's class with a type: its own declarations import each other without file extensions, which Node's module
 * resolution does not follow, so that TypeScript sees `any`.
 */
export const HfTokenizer: new (json: object, config: object) => HfTokenizer = Tokenizer;
