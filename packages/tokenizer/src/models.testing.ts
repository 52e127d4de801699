import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { characterOfByte } from './fast/byte-alphabet.ts';

export const OWN_MODEL = fileURLToPath(new URL('../models/busbar-small', import.meta.url));

/** A folder with another byte-level tokenizer (Qwen3's, for example) that the differential tests run over as well. */
export const OTHER_MODEL = env['BUSBAR_TEST_TOKENIZER'];
export const NO_OTHER_MODEL =
  OTHER_MODEL === undefined ? 'set BUSBAR_TEST_TOKENIZER to a folder with tokenizer.json' : false;

/** Writes a model folder for one test, and takes it away after. */
export async function withModel<T>(
  files: Record<string, unknown>,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'busbar-tokenizer-'));
  try {
    for (const [name, content] of Object.entries(files)) {
      const text = typeof content === 'string' ? content : JSON.stringify(content);
      await writeFile(join(folder, name), text);
    }
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const special = (id: number, content: string): object => ({ id, content, special: true });
const number = (spellings: string[]): Record<string, number> =>
  Object.fromEntries(spellings.map((spelling, id) => [spelling, id]));

/** A model of the older Llama kind: metaspace, bytes as <0x..> for what the vocabulary lacks. */
export function byteFallbackModel(): Record<string, unknown> {
  const bytes = Array.from(
    { length: 256 },
    (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
  );
  const letters = ['▁', ...Array.from('helowrdtin,.')];
  const merged = ['▁h', 'el', 'lo', '▁w', 'or', '▁hel', '▁hello', 'ld', '▁wor', '▁world'];
  const merges = ['▁ h', 'e l', 'l o', '▁ w', 'o r', '▁h el', '▁hel lo', 'l d', '▁w or', '▁wor ld'];
  return {
    'tokenizer.json': {
      added_tokens: [special(0, '<unk>'), special(1, '<s>'), special(2, '</s>')],
      normalizer: {
        type: 'Sequence',
        normalizers: [
          { type: 'Prepend', prepend: '▁' },
          { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
        ],
      },
      pre_tokenizer: null,
      post_processor: {
        type: 'TemplateProcessing',
        single: [
          { SpecialToken: { id: '<s>', type_id: 0 } },
          { Sequence: { id: 'A', type_id: 0 } },
        ],
        pair: [],
        special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } },
      },
      decoder: {
        type: 'Sequence',
        decoders: [
          { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
          { type: 'ByteFallback' },
          { type: 'Fuse' },
          { type: 'Strip', content: ' ', start: 1, stop: 0 },
        ],
      },
      model: {
        type: 'BPE',
        unk_token: '<unk>',
        byte_fallback: true,
        fuse_unk: true,
        vocab: number(['<unk>', '<s>', '</s>', ...bytes, ...letters, ...merged]),
        merges,
      },
    },
    'tokenizer_config.json': { bos_token: '<s>', eos_token: { content: '</s>' } },
  };
}

/** A WordPiece model (BERT kind). */
export function wordPieceModel(): Record<string, unknown> {
  return {
    'tokenizer.json': {
      added_tokens: [special(0, '[UNK]'), special(1, '[CLS]'), special(2, '[SEP]')],
      normalizer: { type: 'BertNormalizer', lowercase: true },
      pre_tokenizer: { type: 'BertPreTokenizer' },
      post_processor: null,
      decoder: { type: 'WordPiece', prefix: '##', cleanup: false },
      model: {
        type: 'WordPiece',
        unk_token: '[UNK]',
        continuing_subword_prefix: '##',
        max_input_chars_per_word: 100,
        vocab: number(['[UNK]', '[CLS]', '[SEP]', 'play', '##ing', '##ed', 'the', 'game', '.']),
      },
    },
  };
}

/** A unigram model (SentencePiece kind). */
export function unigramModel(): Record<string, unknown> {
  const pieces = [
    ['<unk>', 0],
    ['▁the', -1],
    ['▁game', -2],
    ['▁', -3],
    ...Array.from('thegamsn', (letter) => [letter, -5]),
  ];
  return {
    'tokenizer.json': {
      added_tokens: [special(0, '<unk>')],
      normalizer: null,
      pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true },
      post_processor: null,
      decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: true },
      model: { type: 'Unigram', unk_id: 0, vocab: pieces },
    },
  };
}

/** A byte-level model of the Llama 3 kind: whole pieces before merges, a begin token, merges written as strings. */
export function wholePieceModel(): Record<string, unknown> {
  const bytes = Array.from({ length: 256 }, (_, byte) => characterOfByte(byte));
  // "Ġcat" is a token that no merge makes: only the look-up of whole pieces finds it.
  const words = ['he', 'll', 'hell', 'hello', 'Ġcat'];
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, use_regex: true };
  return {
    'tokenizer.json': {
      added_tokens: [
        special(261, '<|begin|>'),
        special(262, '<|end|>'),
        { id: 263, content: '<x>' },
      ],
      normalizer: null,
      pre_tokenizer: byteLevel,
      post_processor: {
        type: 'Sequence',
        processors: [
          byteLevel,
          {
            type: 'TemplateProcessing',
            single: [
              { SpecialToken: { id: '<|begin|>', type_id: 0 } },
              { Sequence: { id: 'A', type_id: 0 } },
            ],
            pair: [],
            special_tokens: { '<|begin|>': { id: '<|begin|>', ids: [261], tokens: ['<|begin|>'] } },
          },
        ],
      },
      decoder: byteLevel,
      model: {
        type: 'BPE',
        ignore_merges: true,
        vocab: number([...bytes, ...words]),
        merges: ['h e', 'l l', 'he ll', 'hell o'],
      },
    },
    'tokenizer_config.json': { bos_token: '<|begin|>', eos_token: '<|end|>' },
    'generation_config.json': { eos_token_id: [262, 263] },
  };
}
