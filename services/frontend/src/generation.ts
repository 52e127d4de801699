import type { AppError } from '@busbar/base';
import type { ApiFinishReason, GenerationParams, UsageTokens } from '@busbar/openai';
import type { Outcome, StreamDelta } from '@busbar/protocol';
import type { Tokenizer } from '@busbar/tokenizer';
import { Candidate } from './candidate.ts';
import { engineError } from './engine-error.ts';
import { problemOf } from './http/error-response.ts';
import type { AnswerSink } from './http/sink.ts';
import type { Prompt } from './prompt.ts';

/** What a generation needs of the machinery around it. */
export interface GenerationHost {
  /** The candidate got its first delta. */
  firstDelta(candidate: Candidate, nowMs: number): void;
  /** The worker ended the stream by itself, or `isRunning` and must be told to. */
  release(candidate: Candidate, outcome: Outcome, isRunning: boolean): void;
  /** The worker could not go on; the candidate may be placed elsewhere. */
  lose(candidate: Candidate, error: AppError): void;
  /** Everything is over; called once. */
  ended(generation: Generation, outcome: Outcome): void;
}

/** One HTTP request while it is answered: all its candidates and where their text goes. */
export class Generation {
  /** `id` of the answer. */
  readonly id: string;
  readonly model: string;
  /** Adapter of the model that answers. */
  readonly lora: string | undefined;
  readonly params: GenerationParams;
  readonly candidates: Candidate[] = [];
  readonly traceparent: string | undefined;
  readonly receivedAtMs: number;
  /** When the first token of any candidate came. */
  firstTokenAtMs: number | undefined;
  /** Code of the error that ended the answer, as the client saw it. */
  errorCode: string | undefined;
  readonly #sink: AnswerSink;
  readonly #host: GenerationHost;
  readonly #prompts: readonly Prompt[];
  #running: number;
  #isOver = false;

  constructor(
    options: {
      id: string;
      model: string;
      lora: string | undefined;
      params: GenerationParams;
      prompts: readonly Prompt[];
      tokenizer: Tokenizer;
      sink: AnswerSink;
      receivedAtMs: number;
      traceparent: string | undefined;
    },
    host: GenerationHost,
  ) {
    this.id = options.id;
    this.model = options.model;
    this.lora = options.lora;
    this.params = options.params;
    this.traceparent = options.traceparent;
    this.receivedAtMs = options.receivedAtMs;
    this.#sink = options.sink;
    this.#prompts = options.prompts;
    this.#host = host;
    for (const prompt of options.prompts) {
      for (let i = 0; i < options.params.candidates; i++) {
        const detokenizer = options.tokenizer.createDetokenizer();
        const index = this.candidates.length;
        this.candidates.push(new Candidate(this, index, prompt, detokenizer, options.params));
      }
    }
    this.#running = this.candidates.length;
  }

  /** Takes what one engine step produced for one candidate. `delta.position` has been checked. */
  accept(candidate: Candidate, delta: StreamDelta, nowMs: number): void {
    if (delta.cachedTokens !== undefined && !candidate.isFetched) {
      candidate.cachedTokens = delta.cachedTokens;
    }
    if (candidate.position === 0 && delta.tokens.length > 0) {
      this.firstTokenAtMs ??= nowMs;
      this.#host.firstDelta(candidate, nowMs);
    }
    candidate.position += delta.tokens.length;
    candidate.lastDeltaMs = nowMs;
    candidate.suspectSinceMs = 0;
    if (delta.finish === 'error' || delta.finish === 'cancelled') {
      this.lose(candidate, engineError(delta));
      return;
    }
    let text = candidate.detokenizer.push(delta.tokens);
    if (delta.finish !== 'none') text += candidate.detokenizer.flush();
    // As in vLLM, stop texts count only behind min_tokens.
    let shown = candidate.position > this.params.minTokens ? candidate.stops.push(text) : text;
    const isStopped = candidate.stops.isStopped;
    if (delta.finish !== 'none' && !isStopped) shown += candidate.stops.flush();
    if (shown !== '') this.#sink.text(candidate.index, shown, this.#usageSoFar(candidate));
    if (isStopped) this.#finish(candidate, 'stop', delta.finish === 'none');
    else if (delta.finish !== 'none') this.#finish(candidate, delta.finish, false);
  }

  /** The worker of one candidate cannot go on with it. */
  lose(candidate: Candidate, error: AppError): void {
    this.#host.lose(candidate, error);
  }

  /** The answer ends with an error; all candidates stop. */
  fail(error: AppError): void {
    const problem = problemOf(error);
    if (!this.#isOver) this.errorCode = problem.code ?? undefined;
    this.#stopAll(problem.status < 500 ? 'rejected' : 'failed', () => this.#sink.fail(problem));
  }

  /** The client is gone; all candidates stop. */
  cancel(): void {
    this.#stopAll('cancelled', () => {});
  }

  usage(): UsageTokens {
    let promptTokens = 0;
    let cachedTokens = 0;
    let completionTokens = 0;
    for (const prompt of this.#prompts) promptTokens += prompt.tokens.length;
    for (const candidate of this.candidates) {
      completionTokens += candidate.position;
      // Candidates share a prompt: it is counted once, as the first of them found it.
      if (candidate.index % this.params.candidates !== 0) continue;
      cachedTokens += candidate.cachedTokens ?? 0;
    }
    return { promptTokens, completionTokens, cachedTokens };
  }

  /** What vLLM tells with every event: the tokens of this choice. */
  #usageSoFar({ prompt, position, cachedTokens = 0 }: Candidate): UsageTokens | undefined {
    if (!this.params.continuousUsage) return undefined;
    return { promptTokens: prompt.tokens.length, completionTokens: position, cachedTokens };
  }

  #finish(candidate: Candidate, reason: ApiFinishReason, isRunning: boolean): void {
    candidate.isDone = true;
    this.#sink.finish(candidate.index, reason, this.#usageSoFar(candidate));
    this.#host.release(candidate, 'completed', isRunning);
    this.#running--;
    if (this.#running > 0 || this.#isOver) return;
    this.#isOver = true;
    this.#sink.complete(this.usage());
    this.#host.ended(this, 'completed');
  }

  #stopAll(outcome: Outcome, tell: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const candidate of this.candidates) {
      if (candidate.isDone) continue;
      candidate.isDone = true;
      this.#host.release(candidate, outcome, true);
    }
    tell();
    this.#host.ended(this, outcome);
  }
}
