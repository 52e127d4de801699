import { HfTokenizer } from '../huggingface/library.ts';
import type { TokenizerConfig, TokenizerJson } from '../huggingface/tokenizer-json.ts';
import type { Detokenizer } from '../port.ts';
import { type PackedVocabulary, TOKEN_KIND, tokenBytes } from '../vocabulary.ts';

/** Tokens that may wait for the end of a character; more than any character of byte tokens needs. */
const MOST_WAITING = 32;
const UNFINISHED = '\ufffd';

/** Decodes with the decoder of Hugging Face's library: byte fallback, metaspace, word pieces and the rest. */
export class WindowDecoder {
  readonly #vocabulary: PackedVocabulary;
  readonly #tokenizer: HfTokenizer;
  readonly #spellings: string[] = [];
  readonly #utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(vocabulary: PackedVocabulary, json: TokenizerJson, config: TokenizerConfig) {
    this.#vocabulary = vocabulary;
    const emptyModel = { type: 'BPE', vocab: {}, merges: [] };
    this.#tokenizer = new HfTokenizer({ ...json, model: emptyModel }, config);
    // The library looks spellings up in this list, which fills as tokens are first asked for.
    this.#tokenizer.model.vocab = this.#spellings;
  }

  createDetokenizer(): Detokenizer {
    return new WindowDetokenizer(this);
  }

  /** False for special tokens and ids outside of the vocabulary. */
  givesText(id: number): boolean {
    return (this.#vocabulary.kinds[id] ?? TOKEN_KIND.silent) !== TOKEN_KIND.silent;
  }

  /** The text of these tokens, of which none is silent. */
  decode(ids: number[]): string {
    if (ids.length === 0) return '';
    for (const id of ids) {
      this.#spellings[id] ??= this.#utf8.decode(tokenBytes(this.#vocabulary, id).slice());
    }
    return this.#tokenizer.decode(ids, { clean_up_tokenization_spaces: false });
  }
}

/**
 * Decodes the last tokens that gave text together with the new ones, and gives what that added: a decoder may treat the start
 * of a text or a run of byte tokens apart. The window is a few tokens long, so the cost does not grow with the output.
 */
class WindowDetokenizer implements Detokenizer {
  readonly #decoder: WindowDecoder;
  /** Tokens whose text was given already, as context. */
  #context: number[] = [];
  #contextText = '';
  #waiting: number[] = [];
  /** Characters of the window's text that were given, context included. */
  #given = 0;

  constructor(decoder: WindowDecoder) {
    this.#decoder = decoder;
  }

  push(tokens: Uint32Array): string {
    let text = '';
    for (const id of tokens) {
      if (this.#decoder.givesText(id)) text += this.#pushOne(id);
    }
    return text;
  }

  flush(): string {
    const text = this.#windowText();
    const rest = text.slice(this.#given);
    this.#context = [];
    this.#waiting = [];
    this.#given = 0;
    this.#contextText = '';
    return rest;
  }

  #pushOne(id: number): string {
    this.#waiting.push(id);
    const text = this.#windowText();
    const unfinished = text.endsWith(UNFINISHED) && this.#waiting.length < MOST_WAITING;
    const stable = unfinished ? text.length - UNFINISHED.length : text.length;
    const fresh = text.slice(this.#given, stable);
    this.#given = Math.max(this.#given, stable);
    if (unfinished) return fresh;
    if (text.length > this.#contextText.length) this.#advance();
    else if (this.#waiting.length >= MOST_WAITING) this.#waiting = [];
    return fresh;
  }

  #advance(): void {
    this.#context = this.#waiting;
    this.#waiting = [];
    this.#contextText = this.#decoder.decode(this.#context);
    this.#given = this.#contextText.length;
  }

  #windowText(): string {
    return this.#decoder.decode([...this.#context, ...this.#waiting]);
  }
}
