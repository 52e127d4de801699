import { writeFile } from 'node:fs/promises';
import { characterOfByte } from '../src/fast/byte-alphabet.ts';
import { trainMerges } from './bpe-trainer.ts';
import { CHAT_TEMPLATE } from './chat-template.ts';
import { corpusPieces } from './corpus.ts';

/** Trains the project's own tokenizer and writes models/busbar-small. Run: node packages/tokenizer/scripts/train.ts */
const VOCABULARY_SIZE = 4096;
const SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
const PATTERN = [
  String.raw`'(?i:[sdmt]|ll|ve|re)`,
  String.raw`[^\r\n\p{L}\p{N}]?\p{L}+`,
  String.raw`\p{N}{1,3}`,
  String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*`,
  String.raw`\s*[\r\n]+`,
  String.raw`\s+(?!\S)`,
  String.raw`\s+`,
].join('|');

const split = (text: string): string[] => text.match(new RegExp(PATTERN, 'gu')) ?? [];

function spell(piece: string): string {
  return Array.from(Buffer.from(piece), characterOfByte).join('');
}

const byteLevel = {
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: false,
  use_regex: false,
};

const alphabet = Array.from({ length: 256 }, (_, byte) => characterOfByte(byte));
const words = new Map(
  [...(await corpusPieces(split))].map(([piece, count]) => [spell(piece), count] as const),
);
const merges = trainMerges(words, VOCABULARY_SIZE - alphabet.length - SPECIAL_TOKENS.length);
const spellings = [...alphabet, ...merges.map(([left, right]) => left + right)];
const firstSpecial = spellings.length;

const tokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: SPECIAL_TOKENS.map((content, at) => ({
    id: firstSpecial + at,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: { type: 'NFC' },
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      { type: 'Split', pattern: { Regex: PATTERN }, behavior: 'Isolated', invert: false },
      byteLevel,
    ],
  },
  post_processor: byteLevel,
  decoder: byteLevel,
  model: {
    type: 'BPE',
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: '',
    end_of_word_suffix: '',
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab: Object.fromEntries(spellings.map((spelling, id) => [spelling, id])),
    merges,
  },
};
const config = {
  add_bos_token: false,
  bos_token: null,
  eos_token: '<|im_end|>',
  pad_token: '<|endoftext|>',
  unk_token: null,
  clean_up_tokenization_spaces: false,
  model_max_length: 131_072,
  tokenizer_class: 'PreTrainedTokenizerFast',
  chat_template: CHAT_TEMPLATE,
};

const target = new URL('../models/busbar-small/', import.meta.url);
await writeFile(new URL('tokenizer.json', target), `${JSON.stringify(tokenizer)}\n`);
await writeFile(new URL('tokenizer_config.json', target), `${JSON.stringify(config, null, 2)}\n`);
process.stdout.write(`${firstSpecial + SPECIAL_TOKENS.length} tokens, ${merges.length} merges\n`);
