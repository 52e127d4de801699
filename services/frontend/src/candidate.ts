import type { AppError } from '@busbar/base';
import { candidateSeed, type GenerationParams, StopMatcher } from '@busbar/openai';
import type { Sampling, StreamDelta } from '@busbar/protocol';
import type { Detokenizer } from '@busbar/tokenizer';
import type { Generation } from './generation.ts';
import type { Prompt } from './prompt.ts';
import type { StreamOwner } from './streams/stream-owner.ts';
import type { PrefillLeg } from './work/prefill-leg.ts';

/** Where a candidate runs, or is about to. */
export interface Placement {
  /** 0 until the work is sent. */
  streamId: number;
  decisionId: string;
  routerId: string;
  workerId: string;
  placedAtMs: number;
  /** The leg that computes the prompt elsewhere; undefined when `workerId` does it all. */
  prefill: PrefillLeg | undefined;
}

/** One choice of an answer: one stream on one worker at a time. */
export class Candidate implements StreamOwner {
  readonly generation: Generation;
  /** `index` of the choice. */
  readonly index: number;
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  readonly detokenizer: Detokenizer;
  readonly stops: StopMatcher;
  placement: Placement | undefined;
  /** KV that waits for another decode worker than the one that refused it. */
  kept: PrefillLeg | undefined;
  /** Output tokens that arrived. */
  position = 0;
  /** Prompt tokens that whoever computed the prompt found in its cache, when it has said so. */
  cachedTokens: number | undefined;
  /** Routers know `cachedTokens`. */
  isCachedTold = false;
  /** The worker was told to fetch the KV of the prompt: what it says of its own cache is no hit. */
  isFetched = false;
  lastDeltaMs = 0;
  suspectSinceMs = 0;
  isDone = false;
  /** Where it was placed last, also when it has ended. */
  lastWorkerId: string | undefined;
  /** Workers that failed this candidate. */
  readonly excluded: string[] = [];
  /** The KV of a split was lost on its way: the next placement is one worker for everything. */
  isWhole = false;
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
    this.sampling =
      seed === undefined
        ? params.sampling
        : { ...params.sampling, seed: candidateSeed(seed, index % params.candidates) };
  }

  get workerId(): string | undefined {
    return this.placement?.workerId;
  }

  get streamId(): number | undefined {
    return this.placement?.streamId;
  }

  get promptTokens(): number {
    return this.prompt.tokens.length;
  }

  get isFetching(): boolean {
    return this.isFetched && this.position === 0;
  }

  accept(delta: StreamDelta, nowMs: number): void {
    this.generation.accept(this, delta, nowMs);
  }

  lose(error: AppError): void {
    this.generation.lose(this, error);
  }

  fail(error: AppError): void {
    this.generation.fail(error);
  }

  /** Forgets what belonged to the placement that was lost. */
  restart(): void {
    this.cachedTokens = undefined;
    this.isCachedTold = false;
    this.isFetched = false;
    this.suspectSinceMs = 0;
  }
}
