import { type GenerationParams, StopMatcher } from '@busbar/openai';
import type { Sampling } from '@busbar/protocol';
import type { Detokenizer } from '@busbar/tokenizer';
import type { Generation } from './generation.ts';
import type { Prompt } from './prompt.ts';

/** Where a candidate runs, or is about to. */
export interface Placement {
  streamId: number;
  decisionId: string;
  routerId: string;
  workerId: string;
  placedAtMs: number;
}

/** One choice of an answer: one stream on one worker at a time. */
export class Candidate {
  readonly generation: Generation;
  /** `index` of the choice. */
  readonly index: number;
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  readonly detokenizer: Detokenizer;
  readonly stops: StopMatcher;
  placement: Placement | undefined;
  /** Output tokens that arrived; what the next delta must begin at. */
  position = 0;
  cachedTokens = 0;
  lastDeltaMs = 0;
  /** Set when tokens of this stream may have been lost; cleared by its next delta. */
  suspectSinceMs = 0;
  isDone = false;
  /** Workers that failed this candidate. */
  readonly excluded: string[] = [];
  attempts = 0;
  /** Code of the last refusal, which tells a full pool from an empty one. */
  lastRefusal: string | undefined;
  /** Counts runs of the placement loop, so that an older run knows that it was overtaken. */
  run = 0;

  constructor(
    generation: Generation,
    index: number,
    prompt: Prompt,
    detokenizer: Detokenizer,
    params: GenerationParams,
  ) {
    this.generation = generation;
    this.index = index;
    this.prompt = prompt;
    this.detokenizer = detokenizer;
    this.stops = new StopMatcher(params.stop);
    const { seed } = params.sampling;
    const ownSeed = seed === undefined ? undefined : seed + (index % params.candidates);
    this.sampling =
      ownSeed === undefined || !Number.isSafeInteger(ownSeed)
        ? params.sampling
        : { ...params.sampling, seed: ownSeed };
  }
}
