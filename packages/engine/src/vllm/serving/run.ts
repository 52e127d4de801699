import { limit, type TransferParams } from '@busbar/protocol';
import type { EngineDelta, EngineRequest, FetchReport } from '../../port.ts';
import { isRefusal, requestError } from '../errors.ts';
import type { Answer, StreamHandler } from '../vllm-http.ts';
import {
  type AnswerError,
  type AnswerPart,
  readAnswerPart,
  readErrorBody,
  readPlainTokens,
} from './answer.ts';
import { SseReader } from './sse-reader.ts';

const NO_TOKENS = new Uint32Array(0);
const DONE = '[DONE]';
/** A whole answer of one token, with the block ids of a million tokens. */
const MAX_LEG_BYTES = 4 * limit('transferParamsBytes');

export interface RunHost {
  deliver(run: Run, delta: EngineDelta): void;
  /** Tokens came `gapMs` behind those before. */
  stepped(tokens: number, gapMs: number): void;
  fetchEnded(run: Run, report: FetchReport): void;
  /** What the engine answered to a prefill leg; undefined: it cannot stage. Throws with a sentence when it is incomplete. */
  transferOf(run: Run, params: unknown): TransferParams | undefined;
  /** The engine did not answer, or broke off: it may be gone. */
  brokeOff(reason: string): void;
}

/** One request that the engine works on, from its submission to its one end. */
export class Run implements StreamHandler {
  readonly request: EngineRequest;
  readonly submittedMs: number;
  readonly #host: RunHost;
  readonly #nowMs: () => number;
  readonly #sse = new SseReader((data) => this.#onEvent(data));
  /** The answer of a prefill leg, which comes in one piece. */
  #leg: Buffer[] = [];
  #legBytes = 0;
  /** The last delta: the number of cached tokens comes behind it. */
  #held: EngineDelta | undefined;
  #cachedTokens: number | undefined;
  #isCacheTold = false;
  #lastTokenMs = 0;
  #handle: { destroy(): void } | undefined;
  isOver = false;
  isFetching = false;
  /** A later request with no less to compute had its first token before this one. */
  isOvertaken = false;
  /** Point of the clock. */
  fetchUntilMs = 0;
  outputTokens = 0;
  firstTokenMs: number | undefined;
  lastHeardMs: number;

  constructor(request: EngineRequest, host: RunHost, nowMs: () => number) {
    this.request = request;
    this.#host = host;
    this.#nowMs = nowMs;
    this.submittedMs = nowMs();
    this.lastHeardMs = this.submittedMs;
  }

  get cachedTokens(): number | undefined {
    return this.#cachedTokens;
  }

  /** The engine is about to fetch the KV of the prompt. A token that comes behind `untilMs` may rest on anything. */
  beginFetch(untilMs: number): void {
    this.isFetching = true;
    this.fetchUntilMs = untilMs;
  }

  /** Gives the fetch up, and with it the request. */
  loseFetch(): void {
    const message = `the KV of the prompt did not come within ${Math.round(this.fetchUntilMs - this.submittedMs)} ms`;
    this.end('error', { code: 'WORKER_KV_LOST', message, retryable: true });
  }

  /** Ends a request that the engine has passed over for too long. */
  giveUpWaiting(): void {
    const waitedMs = Math.round(this.#nowMs() - this.submittedMs);
    const message = `vLLM has no token for this request after ${waitedMs} ms, while later ones that are no shorter got theirs`;
    this.end('error', { code: 'WORKER_FAULT', message, retryable: true });
  }

  /** Takes what cancels the request at the engine. */
  attach(handle: { destroy(): void }): void {
    this.#handle = handle;
  }

  /** Ends the request from outside, at once. */
  end(finish: 'cancelled' | 'error', error?: EngineDelta['error']): void {
    if (this.isOver) return;
    this.#handle?.destroy();
    this.#finish({
      key: this.request.key,
      tokens: NO_TOKENS,
      finish,
      ...(error === undefined ? {} : { error }),
    });
  }

  onChunk(chunk: Buffer): void {
    if (this.isOver) return;
    this.lastHeardMs = this.#nowMs();
    if (this.isFetching && this.lastHeardMs >= this.fetchUntilMs) return this.loseFetch();
    if (this.request.stageKv !== undefined) {
      this.#legBytes += chunk.length;
      if (this.#legBytes > MAX_LEG_BYTES) this.#breakOff('the answer of a prefill is too long');
      else this.#leg.push(chunk);
      return;
    }
    try {
      this.#sse.push(chunk);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.#breakOff(error.message);
    }
  }

  onRefused({ status, text }: Answer): void {
    if (!this.isOver) this.#fail(readErrorBody(status, text));
  }

  onEnd(): void {
    if (this.isOver) return;
    if (this.request.stageKv !== undefined) this.#onLegEnd();
    else if (this.#held !== undefined) this.#finish(this.#held);
    else this.#breakOff('vLLM broke the stream off before its end');
  }

  onFailed(error: Error): void {
    if (!this.isOver) this.#breakOff(`vLLM does not answer: ${error.message}`);
  }

  #onEvent(data: string): void {
    if (this.isOver) return;
    const plain = this.#held === undefined ? readPlainTokens(data) : undefined;
    if (plain !== undefined) return this.#takeTokens(plain);
    if (data === DONE) {
      if (this.#held === undefined) this.#breakOff('vLLM ended the stream without a reason');
      else this.#finish(this.#held);
      return;
    }
    const part = readAnswerPart(data);
    if (part === undefined) return this.#breakOff('vLLM sent an event that is no answer');
    if (part.error !== undefined) return this.#fail(part.error);
    this.#take(part);
  }

  #take(part: AnswerPart): void {
    if (part.cachedTokens !== undefined) {
      this.#cachedTokens ??= Math.min(part.cachedTokens, this.request.tokens.length);
    }
    if (part.finish === undefined && part.tokens.length === 0) return;
    if (this.#held !== undefined) {
      // A reason that is said twice says nothing new.
      if (part.tokens.length > 0) this.#breakOff('vLLM went on behind the end of its answer');
      return;
    }
    if (part.finish === 'abort') {
      return this.#fail({
        message: 'vLLM aborted the request by itself: it is stopping',
        status: 503,
      });
    }
    if (part.finish === 'error') {
      return this.#fail({ message: 'vLLM ended the request with an error', status: 500 });
    }
    const tokens = part.tokens.length === 0 ? NO_TOKENS : Uint32Array.from(part.tokens);
    if (part.finish === undefined) return this.#takeTokens(tokens);
    this.#count(tokens.length);
    // "repetition", "tool_calls" and what later versions add are stops by the model.
    const finish = part.finish === 'length' ? 'length' : 'stop';
    this.#held = { key: this.request.key, tokens, finish };
  }

  #takeTokens(tokens: Uint32Array): void {
    this.#count(tokens.length);
    this.#deliver({ key: this.request.key, tokens, finish: 'none' });
  }

  #count(tokens: number): void {
    if (tokens === 0) return;
    if (this.firstTokenMs === undefined) {
      this.firstTokenMs = this.lastHeardMs;
      this.#endFetch({ outcome: 'ok', bytes: 0 });
    } else {
      this.#host.stepped(tokens, this.lastHeardMs - this.#lastTokenMs);
    }
    this.#lastTokenMs = this.lastHeardMs;
    this.outputTokens += tokens;
  }

  #onLegEnd(): void {
    const part = readAnswerPart(Buffer.concat(this.#leg).toString('utf8'));
    this.#leg = [];
    if (part === undefined) return this.#breakOff('vLLM answered a prefill with something else');
    if (part.error !== undefined) return this.#fail(part.error);
    this.#take(part);
    const held = this.#held;
    if (held === undefined) {
      if (!this.isOver) this.#breakOff('vLLM answered a prefill without a token');
      return;
    }
    try {
      const transfer = this.#host.transferOf(this, part.kvTransferParams);
      this.#finish(transfer === undefined ? held : { ...held, transfer });
    } catch (error) {
      this.#fail({ message: error instanceof Error ? error.message : String(error), status: 500 });
    }
  }

  #breakOff(reason: string): void {
    this.end('error', { code: 'WORKER_FAULT', message: reason, retryable: true });
    this.#host.brokeOff(reason);
  }

  #fail(answer: AnswerError): void {
    const { lora } = this.request;
    const hasBegun = this.outputTokens > 0;
    const error = requestError(answer, { lora, isFetching: this.isFetching, hasBegun });
    if (isRefusal(answer)) this.#endFetch({ outcome: 'cancelled', bytes: 0 });
    this.end('error', error);
  }

  #deliver(delta: EngineDelta): void {
    if (this.#cachedTokens !== undefined && !this.#isCacheTold) {
      this.#isCacheTold = true;
      delta.cachedTokens = this.#cachedTokens;
    }
    this.#host.deliver(this, delta);
  }

  #finish(delta: EngineDelta): void {
    this.isOver = true;
    this.#held = undefined;
    if (delta.finish === 'cancelled') this.#endFetch({ outcome: 'cancelled', bytes: 0 });
    else {
      const reason = delta.error?.message ?? delta.finish;
      this.#endFetch({ outcome: 'failed', bytes: 0, reason });
    }
    this.#deliver(delta);
  }

  #endFetch(report: FetchReport): void {
    if (!this.isFetching) return;
    this.isFetching = false;
    this.#host.fetchEnded(this, report);
  }
}
