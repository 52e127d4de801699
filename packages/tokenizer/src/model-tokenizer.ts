import { ChatTemplate } from './chat/chat-template.ts';
import { ByteDecoder } from './decode/byte-decoder.ts';
import { WindowDecoder } from './decode/window-decoder.ts';
import type { PromptEncoder } from './encode/prompt-encoder.ts';
import { TokenizerError } from './errors.ts';
import type {
  ChatMessage,
  Detokenizer,
  EncodeOptions,
  TemplateOptions,
  Tokenizer,
} from './port.ts';
import type { LoadedModel } from './thread/loaded-model.ts';

/** The tokenizer of one loaded model: an encoder, a decoder and the chat templates. */
export class ModelTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly eosTokenIds: readonly number[];
  readonly encoderKind: Tokenizer['encoderKind'];
  readonly notes: readonly string[];
  readonly #encoder: PromptEncoder;
  readonly #decoder: ByteDecoder | WindowDecoder;
  readonly #template: ChatTemplate;
  #closed = false;

  constructor(loaded: LoadedModel, encoder: PromptEncoder) {
    const { textForm, config } = loaded;
    this.vocabularySize = textForm.vocabulary.kinds.length;
    this.eosTokenIds = loaded.eosTokenIds;
    this.encoderKind = loaded.fast === undefined ? 'huggingface' : 'fast';
    this.notes = loaded.notes;
    this.#encoder = encoder;
    this.#decoder =
      textForm.kind === 'bytes'
        ? new ByteDecoder(textForm.vocabulary)
        : new WindowDecoder(textForm.vocabulary, textForm.json, config);
    this.#template = new ChatTemplate(config, loaded.templateFile);
  }

  encode(text: string, options: EncodeOptions = {}): Uint32Array | Promise<Uint32Array> {
    if (this.#closed) throw new TokenizerError('TOKENIZER_CLOSED');
    if (options.signal?.aborted === true) throw new TokenizerError('TOKENIZER_ABORTED');
    const flags = {
      addSpecialTokens: options.addSpecialTokens ?? false,
      parseSpecial: options.parseSpecial ?? false,
    };
    // UTF-16 halves without a partner have no UTF-8: they become U+FFFD before any path sees them.
    return this.#encoder.encode(text.toWellFormed(), flags, options.signal);
  }

  renderChat(messages: ChatMessage[], options?: TemplateOptions): string {
    return this.#template.render(messages, options);
  }

  createDetokenizer(): Detokenizer {
    return this.#decoder.createDetokenizer();
  }

  decode(tokens: Uint32Array): string {
    const detokenizer = this.#decoder.createDetokenizer();
    return detokenizer.push(tokens) + detokenizer.flush();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#encoder.close();
  }
}
