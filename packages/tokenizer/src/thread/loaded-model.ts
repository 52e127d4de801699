import type { FastModel } from '../fast/fast-model.ts';
import type { Frame } from '../fast/self-check.ts';
import type { AddedToken, TokenizerConfig, TokenizerJson } from '../huggingface/tokenizer-json.ts';
import type { PackedVocabulary } from '../vocabulary.ts';

/** How token ids become text: by the bytes of each token, or by the decoder of Hugging Face's library. */
export type TextForm =
  | { readonly kind: 'bytes'; readonly vocabulary: PackedVocabulary }
  | {
      readonly kind: 'decoder';
      readonly vocabulary: PackedVocabulary;
      /** tokenizer.json without what only encoding needs. */
      readonly json: TokenizerJson;
    };

/** The fast form of a model, as its self-check left it. */
export interface ProvenFastModel {
  readonly model: FastModel;
  readonly frame: Frame;
  /** Whether texts may be cut between words, so that the beginning of one serves another. */
  readonly knowsHeads: boolean;
}

/** A tokenizer as the loading thread hands it over; structured-cloneable, the large parts in shared memory. */
export interface LoadedModel {
  /** Undefined when only Hugging Face's library encodes this kind; `notes` say why. */
  readonly fast: ProvenFastModel | undefined;
  readonly textForm: TextForm;
  readonly addedTokens: readonly AddedToken[];
  readonly config: TokenizerConfig;
  readonly templateFile: string | undefined;
  readonly eosTokenIds: readonly number[];
  readonly notes: readonly string[];
}
