import type { Tokenizer } from '@busbar/tokenizer';

/** What the mock engine says. Plain ASCII, so that every token of it is whole text under any byte-level vocabulary. */
const SENTENCES = [
  'This text comes from the mock engine of Busbar, not from a language model.',
  'A router chose this worker because it expected your prompt in its cache.',
  'The words mean nothing, but their timing follows a measured profile.',
  'Each engine step sends its tokens over the bus in a single message.',
  'Blocks that this prompt filled can be used again by the next request.',
  'Connect a real engine to get answers that have something to say.',
  'Until then, this sentence keeps its place in the batch.',
  'The order of these sentences depends on the prompt and the seed alone.',
];

/** The sentences as token ids, one piece a line. */
export async function createScript(tokenizer: Tokenizer): Promise<Uint32Array[]> {
  const pieces: Uint32Array[] = [];
  for (const sentence of SENTENCES) {
    const tokens = await tokenizer.encode(`${sentence}\n`);
    pieces.push(Uint32Array.from(tokens));
  }
  return pieces;
}
