/** One message of a chat, as templates take it. */
export interface ChatMessage {
  role: string;
  content?: string | null | { type: 'text'; text: string }[];
  name?: string;
  tool_calls?: unknown[];
  tool_call_id?: string;
  [key: string]: unknown;
}

export interface TemplateOptions {
  tools?: unknown[];
  /** Append the start of an assistant turn. Default true. */
  addGenerationPrompt?: boolean;
  /** Handed to the template as they are (`enable_thinking`, ...). */
  extra?: Record<string, unknown>;
}

/** Turns token ids into text piece by piece; never cuts a character. One per candidate of a request. */
export interface Detokenizer {
  /** Text that became complete with these tokens; "" while a character is open. Special tokens give no text. */
  push(tokens: Uint32Array): string;
  /** What is left when generation ends: bytes that never became a character come out as U+FFFD. */
  flush(): string;
}

export interface EncodeOptions {
  /** Adds what the model puts around a text, for example a begin token. Default false. */
  addSpecialTokens?: boolean;
  /** Special tokens in the text become their ids; else they are encoded as plain text. Default false. */
  parseSpecial?: boolean;
  /** Ends the wait for a thread with TokenizerError TOKENIZER_ABORTED. */
  signal?: AbortSignal;
}

/** The tokenizer of one model. `encode` ids equal those of Hugging Face's library for the same tokenizer.json. */
export interface Tokenizer {
  readonly vocabularySize: number;
  readonly eosTokenIds: readonly number[];
  /** Which code path encodes: "fast" only after its self-check passed at load. */
  readonly encoderKind: 'huggingface' | 'fast';
  /** Sentences an operator should read, for example why the fast path is off. Empty when all is well. */
  readonly notes: readonly string[];
  /**
   * Adds no special tokens of its own unless `addSpecialTokens`. Special tokens in the text become ids only with `parseSpecial`.
   * Answers at once where that takes at most some milliseconds, else through a thread. Unpaired surrogates count as U+FFFD.
   * Throws or rejects with TokenizerError TOKENIZER_BUSY, TOKENIZER_ABORTED, TOKENIZER_CLOSED or TOKENIZER_FAILED.
   */
  encode(text: string, options?: EncodeOptions): Promise<Uint32Array> | Uint32Array;
  /** Renders the model's chat template. Throws TokenizerError TOKENIZER_TEMPLATE with the template's own message. */
  renderChat(messages: ChatMessage[], options?: TemplateOptions): string;
  createDetokenizer(): Detokenizer;
  decode(tokens: Uint32Array): string;
  close(): Promise<void>;
}
