import { z } from 'zod';
import type { HfEncoder } from '../huggingface/hf-encoder.ts';
import type { TokenizerConfig, TokenizerJson } from '../huggingface/tokenizer-json.ts';
import { packVocabulary } from '../vocabulary.ts';
import { bytesOfToken, characterOfByte } from './byte-alphabet.ts';
import type { FastModel } from './fast-model.ts';
import { MergeTable } from './merge-table.ts';
import { splitStepsOf } from './split-steps.ts';
import { TokenIndex } from './token-index.ts';

/** Ranks above this do not fit the exact range of the merger's keys. */
const MAX_MERGES = 2 ** 21;

const bpeModel = z.looseObject({
  type: z.literal('BPE').optional(),
  dropout: z.null().optional(),
  continuing_subword_prefix: z.literal('').nullish(),
  end_of_word_suffix: z.literal('').nullish(),
  continuing_subword_suffix: z.literal('').nullish(),
  byte_fallback: z.literal(false).optional(),
  fuse_unk: z.literal(false).optional(),
  ignore_merges: z.boolean().default(false),
  merges: z.custom<unknown[]>(Array.isArray),
});
type BpeModel = z.infer<typeof bpeModel>;

export type FastModelResult =
  | { readonly model: FastModel }
  | { readonly model: undefined; readonly reason: string };

const refuse = (reason: string): FastModelResult => ({ model: undefined, reason });

/**
 * The fast form of a byte-level BPE tokenizer (GPT-2, Qwen, Llama 3 style), or why there is none. `silent` are the ids that
 * give no text. That the fast form gives equal ids is for the self-check to show.
 */
export function buildFastModel(
  json: TokenizerJson,
  config: TokenizerConfig,
  hf: HfEncoder,
  silent: ReadonlySet<number>,
): FastModelResult {
  const bpe = bpeModel.safeParse(json.model);
  if (!bpe.success) return refuse('the model is not plain BPE');
  const splitSteps = splitStepsOf(json.pre_tokenizer, hf.preTokenizer);
  if (splitSteps === undefined) return refuse('the pre-tokenizer is not byte-level splitting');
  if (json.normalizer !== null && json.normalizer.type !== 'NFC') {
    return refuse(`the normalizer is ${json.normalizer.type}`);
  }
  if (json.decoder?.type !== 'ByteLevel') return refuse('the decoder is not ByteLevel');
  if (config.remove_space === true || config.do_lowercase_and_remove_accent === true) {
    return refuse('the configuration changes the text before encoding');
  }
  for (const token of json.added_tokens) {
    const needsContext = token.single_word || token.lstrip || token.rstrip;
    if (needsContext || (token.normalized && json.normalizer !== null)) {
      return refuse(`the added token ${token.content} depends on the text around it`);
    }
  }
  return assemble(json, bpe.data, hf, splitSteps, silent);
}

function assemble(
  json: TokenizerJson,
  bpe: BpeModel,
  hf: HfEncoder,
  splitSteps: FastModel['splitSteps'],
  silent: ReadonlySet<number>,
): FastModelResult {
  const byteIds = new Uint32Array(new SharedArrayBuffer(256 * 4));
  for (let byte = 0; byte < 256; byte++) {
    const id = hf.idsBySpelling.get(characterOfByte(byte));
    if (id === undefined) return refuse(`the vocabulary has no token for byte ${byte}`);
    byteIds[byte] = id;
  }
  const merges = mergeTable(bpe.merges, hf.idsBySpelling);
  if (typeof merges === 'string') return refuse(merges);

  const added = new Map(json.added_tokens.map(({ id, content }) => [id, content]));
  const wordIds: number[] = [];
  const tokens = Array.from(hf.spellings, (spelling, id) => {
    const content = added.get(id);
    if (content !== undefined) return Buffer.from(content);
    if (spelling === undefined) return undefined;
    const bytes = bytesOfToken(spelling);
    if (bytes !== undefined) wordIds.push(id);
    return bytes ?? Buffer.from(spelling);
  });
  const vocabulary = packVocabulary(tokens, silent);
  return {
    model: {
      vocabulary,
      mergeSlots: merges.slots,
      byteIds,
      splitSteps,
      normalizesNfc: json.normalizer !== null,
      wholePieceSlots: bpe.ignore_merges ? TokenIndex.of(wordIds, vocabulary).slots : undefined,
    },
  };
}

function mergeTable(
  merges: readonly unknown[],
  ids: ReadonlyMap<string, number>,
): MergeTable | string {
  if (merges.length > MAX_MERGES) return 'the model has too many merges';
  const table = MergeTable.withCapacity(merges.length);
  for (const [rank, merge] of merges.entries()) {
    const pair: unknown = typeof merge === 'string' ? merge.split(' ', 2) : merge;
    if (!Array.isArray(pair)) return 'a merge is not a pair';
    const [left, right] = pair.map(String);
    if (left === undefined || right === undefined) return 'a merge is not a pair';
    const leftId = ids.get(left);
    const rightId = ids.get(right);
    const merged = ids.get(left + right);
    if (leftId === undefined || rightId === undefined || merged === undefined) {
      return `the merge of ${left} and ${right} is outside of the vocabulary`;
    }
    table.set(leftId, rightId, rank, merged);
  }
  return table;
}
