export { TOKENIZER_ERRORS, TokenizerError, type TokenizerErrorCode } from './errors.ts';
export { type LoadTokenizerOptions, loadTokenizer } from './load-tokenizer.ts';
export type * from './port.ts';
export { tokenizerDigest } from './tokenizer-digest.ts';
