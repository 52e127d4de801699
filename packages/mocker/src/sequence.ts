import { Answer } from './answer.ts';
import { OutputChain } from './output-chain.ts';
import type { MockDelta, MockerConfig, MockRequest } from './types.ts';

/** `arrived`: all contents are there, a seat is not. `staged`: over, and its blocks kept for others. */
export type SequenceState = 'waiting' | 'running' | 'fetching' | 'arrived' | 'staged' | 'ended';

/** One request inside the engine: what it asked for, which blocks it holds and how far it is computed. */
export class Sequence {
  readonly key: number;
  readonly promptTokens: number;
  /** Prompt tokens that the cache held when the request came. */
  readonly expectedCachedTokens: number;
  readonly chain: OutputChain;
  /** Pool blocks, in the order of the tokens they hold. */
  readonly blocks: number[] = [];
  /** Leading blocks that others can find by their hash. */
  publishedBlocks = 0;
  /** Leading tokens whose keys and values lie in `blocks`. */
  computedTokens = 0;
  /** Tokens that the running step computes. */
  plannedTokens = 0;
  outputTokens = 0;
  /** Prompt tokens found in the cache when the request first ran, undefined before. */
  cachedTokens: number | undefined;
  state: SequenceState = 'waiting';
  isAborted = false;
  /** Its prompt is to be fetched and not computed. Once preempted, what was fetched is lost, and it computes like others. */
  fetchesKv: boolean;
  readonly stagesKv: boolean;
  readonly #answer: Answer;
  readonly #maxTokens: number;
  readonly #request: MockRequest;
  readonly #eosTokenIds: readonly number[];

  constructor(
    request: MockRequest,
    config: MockerConfig,
    contextTokens: number,
    expectedCachedTokens: number,
  ) {
    this.key = request.key;
    this.promptTokens = request.tokens.length;
    this.expectedCachedTokens = expectedCachedTokens;
    this.chain = new OutputChain(request, config.blockSize);
    this.#answer = new Answer(config.script, request.seed);
    this.stagesKv = request.stagesKv ?? false;
    this.fetchesKv = request.fetchesKv ?? false;
    const maxTokens = this.stagesKv ? 1 : request.maxTokens;
    this.#maxTokens = Math.min(maxTokens, contextTokens - this.promptTokens);
    this.#request = request;
    this.#eosTokenIds = config.eosTokenIds;
  }

  /** Prompt and output so far. */
  get tokens(): number {
    return this.promptTokens + this.outputTokens;
  }

  /** Whether only the newest token is missing from the cache: an output token, or the last of a prompt that was fetched. */
  get isDecoding(): boolean {
    const hasOne = this.outputTokens > 0 || this.fetchesKv;
    return hasOne && this.computedTokens === this.tokens - 1;
  }

  /** Samples the next output token. */
  advance(): MockDelta {
    const { minTokens, ignoreEos, stopTokenIds } = this.#request;
    const eos = this.#eosTokenIds[0];
    const mayStop = this.outputTokens >= minTokens;
    const isOver = !ignoreEos && mayStop && this.outputTokens >= this.#answer.naturalTokens;
    const token = isOver && eos !== undefined ? eos : this.#answer.next();
    this.outputTokens++;
    this.chain.push(token);
    const isEos = !ignoreEos && this.#eosTokenIds.includes(token);
    const stops = isOver || (mayStop && (isEos || stopTokenIds.includes(token)));
    const isFull = this.outputTokens >= this.#maxTokens;
    const delta: MockDelta = {
      key: this.key,
      tokens: [token],
      finish: stops ? 'stop' : isFull ? 'length' : 'none',
    };
    if (this.outputTokens === 1) delta.cachedTokens = this.cachedTokens ?? 0;
    return delta;
  }
}
