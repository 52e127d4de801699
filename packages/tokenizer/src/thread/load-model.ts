import { headsFault } from '../encode/heads-fault.ts';
import { buildFastModel } from '../fast/build-fast-model.ts';
import { bytesOfToken } from '../fast/byte-alphabet.ts';
import { type Frame, frameOf, selfCheck } from '../fast/self-check.ts';
import { HfEncoder } from '../huggingface/hf-encoder.ts';
import type { TokenizerConfig, TokenizerJson } from '../huggingface/tokenizer-json.ts';
import { packVocabulary } from '../vocabulary.ts';
import type { LoadedModel, ProvenFastModel, TextForm } from './loaded-model.ts';
import { type ModelFiles, readModelFiles } from './model-files.ts';

/** Loads a model folder. `hf` is the library's own instance, for kinds that have no proven fast form. */
export async function loadModel(folder: string): Promise<{ loaded: LoadedModel; hf: HfEncoder }> {
  const files = await readModelFiles(folder);
  const { json, config } = files;
  const hf = new HfEncoder(json, config);
  const silent = silentIds(json, config);
  const proven = provenFastModel(files, hf, silent);
  const loaded: LoadedModel = {
    fast: 'reason' in proven ? undefined : proven.fast,
    textForm: 'reason' in proven ? textFormOf(json, hf, silent) : bytesForm(proven.fast.model),
    addedTokens: json.added_tokens,
    config: { ...config, added_tokens_decoder: undefined },
    templateFile: files.templateFile,
    eosTokenIds: eosTokenIds(files),
    notes:
      'reason' in proven
        ? [`texts are encoded by the slower library in a thread, because ${proven.reason}`]
        : proven.notes,
  };
  return { loaded, hf };
}

type Proven = { fast: ProvenFastModel; notes: string[] } | { reason: string };

function provenFastModel(files: ModelFiles, hf: HfEncoder, silent: ReadonlySet<number>): Proven {
  const built = buildFastModel(files.json, files.config, hf, silent);
  if (built.model === undefined) return { reason: built.reason };
  const frame: Frame | undefined = frameOf(hf);
  if (frame === undefined) return { reason: 'the post-processor is not a plain frame' };
  const difference = selfCheck(built.model, frame, files.json.added_tokens, hf);
  if (difference !== undefined) return { reason: difference };
  const fault = headsFault(built.model);
  return {
    fast: { model: built.model, frame, knowsHeads: fault === undefined },
    notes:
      fault === undefined ? [] : [`known beginnings of texts are encoded again, because ${fault}`],
  };
}

function bytesForm(model: ProvenFastModel['model']): TextForm {
  return { kind: 'bytes', vocabulary: model.vocabulary };
}

/** The bytes of each token where the decoder is ByteLevel, else the spelling of each token for the library's decoder. */
function textFormOf(json: TokenizerJson, hf: HfEncoder, silent: ReadonlySet<number>): TextForm {
  const added = new Map(json.added_tokens.map(({ id, content }) => [id, content]));
  const spellings = Array.from(hf.spellings);
  if (json.decoder?.type === 'ByteLevel') {
    const bytes = spellings.map((spelling, id) => {
      const content = added.get(id);
      if (content !== undefined) return Buffer.from(content);
      return spelling === undefined ? undefined : (bytesOfToken(spelling) ?? Buffer.from(spelling));
    });
    return { kind: 'bytes', vocabulary: packVocabulary(bytes, silent) };
  }
  const utf8 = spellings.map((spelling) =>
    spelling === undefined ? undefined : Buffer.from(spelling),
  );
  return {
    kind: 'decoder',
    vocabulary: packVocabulary(utf8, silent),
    json: {
      ...json,
      normalizer: null,
      pre_tokenizer: null,
      post_processor: null,
      model: { vocab: {} },
    },
  };
}

function silentIds(json: TokenizerJson, config: TokenizerConfig): Set<number> {
  const named = new Set(config.additional_special_tokens ?? []);
  const silent = json.added_tokens.filter((token) => token.special || named.has(token.content));
  return new Set(silent.map(({ id }) => id));
}

function eosTokenIds({ json, config, eosTokenIds: declared }: ModelFiles): number[] {
  const named = json.added_tokens.find(({ content }) => content === config.eos_token);
  return [...new Set([...(named === undefined ? [] : [named.id]), ...declared])];
}
