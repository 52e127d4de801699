import { HfTokenizer } from './library.ts';
import type { TokenizerConfig, TokenizerJson } from './tokenizer-json.ts';

export interface EncodeFlags {
  addSpecialTokens: boolean;
  parseSpecial: boolean;
}

/** Encodes with Hugging Face's own library: the truth that every other path is checked against. Takes well-formed text. */
export class HfEncoder {
  readonly #parsing: HfTokenizer;
  readonly #plain: HfTokenizer;

  constructor(json: TokenizerJson, config: TokenizerConfig) {
    this.#parsing = new HfTokenizer(json, config);
    this.#plain = withoutSpecial(this.#parsing, json, config);
  }

  encode(text: string, flags: EncodeFlags): Uint32Array {
    const tokenizer = flags.parseSpecial ? this.#parsing : this.#plain;
    const { ids } = tokenizer.encode(text, { add_special_tokens: flags.addSpecialTokens });
    return Uint32Array.from(ids);
  }

  /** The library's own pre-tokenizer, whose patterns are already translated for JavaScript. */
  get preTokenizer(): unknown {
    return this.#parsing.pre_tokenizer;
  }

  /** The text of every token as the vocabulary spells it; holes where an id has none. */
  get spellings(): readonly (string | undefined)[] {
    return this.#parsing.model.vocab;
  }

  /** The id of every spelling, added tokens included. */
  get idsBySpelling(): ReadonlyMap<string, number> {
    return this.#parsing.model.tokens_to_ids;
  }
}

/**
 * The same tokenizer that reads special tokens as plain text (`encode_special_tokens` of the Rust library; the JavaScript
 * one has no such switch). It shares the model; only the tokens it looks for in the text differ.
 */
function withoutSpecial(
  full: HfTokenizer,
  json: TokenizerJson,
  config: TokenizerConfig,
): HfTokenizer {
  const visible = json.added_tokens.filter((token) => !token.special);
  const emptyModel = { type: 'BPE', vocab: {}, merges: [] };
  const plain = new HfTokenizer({ ...json, added_tokens: visible, model: emptyModel }, config);
  plain.model = full.model;
  return plain;
}
