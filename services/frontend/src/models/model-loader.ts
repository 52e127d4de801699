import { BlockHasher, hashSeed } from '@busbar/blocks';
import type { ModelCard } from '@busbar/protocol';
import { type LoadTokenizerOptions, type Tokenizer, tokenizerDigest } from '@busbar/tokenizer';
import { FrontendError } from '../errors.ts';

/** A model that this frontend can turn text into tokens for. */
export interface ServedModel {
  card: ModelCard;
  tokenizer: Tokenizer;
  /** For requests without a salt or an adapter; keeps its tables between them. */
  hasher: BlockHasher;
}

export type LoadTokenizer = (options: LoadTokenizerOptions) => Promise<Tokenizer>;

/** Loads what a card names. Rejects when the files are missing, broken, or not those that the workers have. */
export async function loadModel(
  card: ModelCard,
  load: LoadTokenizer,
  threads: number,
): Promise<ServedModel> {
  const path = card.tokenizerPath;
  if (path !== undefined && card.tokenizerDigest !== undefined) {
    if ((await tokenizerDigest(path)) !== card.tokenizerDigest) {
      throw new FrontendError(
        'FRONTEND_MODEL_UNAVAILABLE',
        'tokenizer.json here is not the one that the workers have',
      );
    }
  }
  const tokenizer = await load({ path, threads });
  return { card, tokenizer, hasher: new BlockHasher(card.blockSize, hashSeed()) };
}

/** True when a new card needs no new tokenizer. */
export function hasSameTokenizer(a: ModelCard, b: ModelCard): boolean {
  return a.tokenizerPath === b.tokenizerPath && a.tokenizerDigest === b.tokenizerDigest;
}
