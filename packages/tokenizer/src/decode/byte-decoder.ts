import type { Detokenizer } from '../port.ts';
import { type PackedVocabulary, TOKEN_KIND, tokenBytes } from '../vocabulary.ts';
import { incompleteTail } from './utf8-tail.ts';

/** Decodes byte-level vocabularies. Holds the text of every token asked for once; one per tokenizer. */
export class ByteDecoder {
  readonly #vocabulary: PackedVocabulary;
  readonly #texts: (string | undefined)[];
  readonly #utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  constructor(vocabulary: PackedVocabulary) {
    this.#vocabulary = vocabulary;
    this.#texts = Array.from({ length: vocabulary.kinds.length });
  }

  createDetokenizer(): Detokenizer {
    return new ByteDetokenizer(this);
  }

  /** One of TOKEN_KIND; silent for ids outside of the vocabulary. */
  kindOf(id: number): number {
    return this.#vocabulary.kinds[id] ?? TOKEN_KIND.silent;
  }

  /** The text of a token whose kind is `text`. */
  textOf(id: number): string {
    return (this.#texts[id] ??= this.decode(tokenBytes(this.#vocabulary, id).slice()));
  }

  bytesOf(id: number): Uint8Array {
    return tokenBytes(this.#vocabulary, id);
  }

  /** Bytes as text; what is no UTF-8 comes out as U+FFFD. Takes no view of shared memory. */
  decode(bytes: Uint8Array): string {
    return this.#utf8.decode(bytes);
  }
}

/** The state of one stream of tokens: at most three bytes of a character that is not complete. */
class ByteDetokenizer implements Detokenizer {
  readonly #decoder: ByteDecoder;
  #pending: Uint8Array | undefined;

  constructor(decoder: ByteDecoder) {
    this.#decoder = decoder;
  }

  push(tokens: Uint32Array): string {
    const decoder = this.#decoder;
    let text = '';
    for (let i = 0; i < tokens.length; i++) {
      const id = tokens[i]!;
      const kind = decoder.kindOf(id);
      if (kind === TOKEN_KIND.silent) continue;
      text +=
        kind === TOKEN_KIND.text && this.#pending === undefined
          ? decoder.textOf(id)
          : this.#pushBytes(decoder.bytesOf(id));
    }
    return text;
  }

  flush(): string {
    if (this.#pending === undefined) return '';
    this.#pending = undefined;
    return '\ufffd';
  }

  #pushBytes(token: Uint8Array): string {
    const pending = this.#pending?.length ?? 0;
    const bytes = new Uint8Array(pending + token.length);
    if (this.#pending !== undefined) bytes.set(this.#pending);
    bytes.set(token, pending);
    const tail = incompleteTail(bytes, bytes.length);
    this.#pending = tail === 0 ? undefined : bytes.subarray(bytes.length - tail);
    return tail === bytes.length
      ? ''
      : this.#decoder.decode(bytes.subarray(0, bytes.length - tail));
  }
}
