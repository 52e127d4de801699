import type { Candidate } from './candidate.ts';
import { Generation } from './generation.ts';
import { byteTokenizer } from './scripted-worker.testing.ts';

const nothing = (): void => {};

/** The only candidate of a request of eight tokens, whose answer nobody reads. */
export function scriptedCandidate(): Candidate {
  const params = {
    candidates: 1,
    maxTokens: undefined,
    maxTokensField: 'max_tokens' as const,
    minTokens: 0,
    ignoreEos: false,
    stop: [],
    stopTokenIds: [],
    isStream: false,
    includeUsage: false,
    continuousUsage: false,
    cacheSalt: undefined,
    sampling: {},
  };
  const prompt = { tokens: new Uint32Array(8), hashes: new Uint32Array(4), maxTokens: 10 };
  const generation = new Generation(
    {
      id: 'chatcmpl-test',
      model: 'm',
      lora: undefined,
      params,
      prompts: [prompt],
      tokenizer: byteTokenizer,
      sink: { text: nothing, finish: nothing, complete: nothing, fail: nothing },
      receivedAtMs: 0,
      traceparent: undefined,
    },
    { firstDelta: nothing, release: nothing, lose: nothing, ended: nothing },
  );
  return generation.candidates[0]!;
}
