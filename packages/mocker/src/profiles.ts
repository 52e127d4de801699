import type { EngineProfile } from './types.ts';

/** What one token occupies in the cache, over all layers. Qwen3-0.6B: 28 layers of 8 KV heads of size 128 in two bytes, keys and values. */
export const DEFAULT_KV_BYTES_PER_TOKEN = 114_688;

/**
 * Qwen3-0.6B under vLLM without CUDA graphs on a GPU with 8 GB. Fitted to published measurements: first token after 30 ms for
 * 512 tokens and 80 ms for about 1,530; 15 ms when all but the tail is cached; 1,509 output tokens a second at 32 in flight
 * with prompts of 512 and answers of 128 tokens.
 */
const seed8Gb: EngineProfile = {
  name: 'seed-8gb',
  maxRunning: 256,
  maxBatchedTokens: 2048,
  prefillTokensPerMs: 20,
  decodeStepMs: 13.1,
  stepMs: ({ prefillTokens, prefillPairs, decodeSequences }) =>
    13 + 0.0283 * prefillTokens + 1.9e-5 * prefillPairs + 0.12 * decodeSequences,
};

/** The timing polynomials that NVIDIA Dynamo 1.6 publishes for its mock engine (a large model on a data-centre GPU). */
const dynamoMocker: EngineProfile = {
  name: 'dynamo-mocker',
  maxRunning: 256,
  maxBatchedTokens: 8192,
  prefillTokensPerMs: 40,
  decodeStepMs: 6,
  stepMs: ({ prefillTokens: n, decodeSequences, activeKvTokens, kvTokens }) => {
    const prefillMs = n === 0 ? 0 : 4.209989e-7 * n * n + 1.518344e-2 * n + 16.50142;
    if (decodeSequences === 0) return prefillMs;
    const fill = Math.min(1, activeKvTokens / kvTokens);
    return prefillMs + Math.max(1, -25.74 * fill * fill + 54.01 * fill + 5.74);
  },
};

/**
 * A model of Qwen3-32B in bfloat16 on one A100 with 80 GB, from data sheets and not measured: 65.6 GB of weights, 312 TFLOPS of which
 * half is reached, 2,039 GB/s of which 80 % are. A step reads all weights or computes its tokens at 65.6 GFLOP each, whichever takes
 * longer; each pair of tokens costs 2.1 MFLOP (64 layers of 64 heads of 128). Its KV takes 262,144 bytes a token, read once for
 * each output token.
 */
const qwen32Ba100: EngineProfile = {
  name: 'qwen3-32b-a100',
  maxRunning: 256,
  maxBatchedTokens: 2048,
  prefillTokensPerMs: 2.3,
  decodeStepMs: 40.5,
  stepMs: ({ prefillTokens, prefillPairs, decodeSequences, activeKvTokens }) =>
    Math.max(40.2, 0.42 * (prefillTokens + decodeSequences)) +
    1.34e-5 * prefillPairs +
    (decodeSequences > 0 ? 1.6e-4 * activeKvTokens : 0),
};

/** No time at all, to measure what is around the engine. */
const instant: EngineProfile = {
  name: 'instant',
  maxRunning: 256,
  maxBatchedTokens: 8192,
  prefillTokensPerMs: 1e6,
  decodeStepMs: 0,
  stepMs: () => 0,
};

/** Every timing profile by name. */
export const PROFILES: Readonly<Record<string, EngineProfile>> = {
  [seed8Gb.name]: seed8Gb,
  [dynamoMocker.name]: dynamoMocker,
  [qwen32Ba100.name]: qwen32Ba100,
  [instant.name]: instant,
};

/** Names of all timing profiles. */
export const PROFILE_NAMES: readonly string[] = Object.keys(PROFILES);

/** What a mock engine has when nothing is said: the 8 GB machine on which the times were measured, and its blocks. */
export const MOCK_DEFAULTS = { profile: seed8Gb.name, kvBlocks: 926, speed: 1 } as const;

/** The profile of this name, or undefined. */
export function profileByName(name: string): EngineProfile | undefined {
  return Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
}
