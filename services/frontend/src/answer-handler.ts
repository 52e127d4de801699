import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type AnswerHead,
  type ChatRequest,
  type Checked,
  type CompletionRequest,
  type Problem,
  parseChatRequest,
  parseCompletionRequest,
  parseJsonObject,
} from '@busbar/openai';
import { limit, type Outcome } from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import { formatTraceparent, parseTraceparent } from '@busbar/telemetry';
import type { Dispatcher } from './dispatcher.ts';
import { FrontendError } from './errors.ts';
import { Generation } from './generation.ts';
import { readBody } from './http/body-reader.ts';
import { problemOf, sendProblem } from './http/error-response.ts';
import { JsonSink } from './http/json-sink.ts';
import { randomHex } from './http/request-id.ts';
import type { SinkFlusher } from './http/sink-flusher.ts';
import { SseSink } from './http/sse-sink.ts';
import type { FrontendMetrics } from './metrics.ts';
import { unavailableModel, unknownModel } from './models/model-problems.ts';
import type { FoundModel, ModelRegistry } from './models/model-registry.ts';
import { type Prompt, preparePrompts } from './prompt.ts';
import { type RefusedRequest, refusedEventData } from './request-event.ts';

export type AnswerKind = 'chat' | 'completion';

interface Deps {
  context: ServiceContext;
  registry: ModelRegistry;
  dispatcher: Dispatcher;
  flusher: SinkFlusher;
  metrics: FrontendMetrics;
}

/** One HTTP request on its way to becoming a generation. */
interface Incoming extends RefusedRequest {
  kind: AnswerKind;
  request: IncomingMessage;
  response: ServerResponse;
  traceparent: string | undefined;
}

/** POST /v1/chat/completions and /v1/completions. */
export class AnswerHandler {
  readonly #deps: Deps;
  #isDraining = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** From now on new requests are refused and their connections closed. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Answers whatever happens; never rejects. Resolves when the request is refused or running. */
  async handle(
    kind: AnswerKind,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { context } = this.#deps;
    const receivedAtMs = context.clock.monotonicMs();
    const given = traceparentOf(request);
    const span = context.tracer.start('frontend.request', given);
    const traceparent = span.traceparent ?? given;
    response.once('close', () => span.end());
    const incoming: Incoming = {
      kind,
      request,
      response,
      receivedAtMs,
      traceparent,
      model: undefined,
      lora: undefined,
    };
    try {
      const problem = await this.#answer(incoming);
      if (problem !== undefined) this.#refuse(incoming, problem);
    } catch (error) {
      const problem = problemOf(error);
      if (problem.status === 500) context.log.error({ err: error }, 'a request failed');
      this.#refuse(incoming, problem);
    }
  }

  #refuse(incoming: Incoming, problem: Problem): void {
    const { response } = incoming;
    const outcome = problem.status < 500 ? 'rejected' : 'failed';
    this.#tellEnd(incoming, response.destroyed ? 'cancelled' : outcome, problem.code);
    sendProblem(response, problem, { isLast: this.#isDraining || problem.status === 413 });
  }

  /** Of a request that no generation has taken. */
  #tellEnd(incoming: Incoming, outcome: Outcome, errorCode: string | null): void {
    const { context, metrics } = this.#deps;
    const nowMs = context.clock.monotonicMs();
    metrics.requestEnded(outcome, (nowMs - incoming.receivedAtMs) / 1_000);
    // Nobody hears it in an outage, and what is kept until its end has more to say.
    if (context.bus.status !== 'connected') return;
    const requestId = String(incoming.response.getHeader('x-request-id'));
    context.offerEvent('request.completed', requestId, () =>
      refusedEventData(incoming, outcome, errorCode, nowMs),
    );
  }

  /** The problem that refuses the request, or undefined when a generation has taken it or the client has left. */
  async #answer(incoming: Incoming): Promise<Problem | undefined> {
    this.#checkOpen();
    const body = await readBody(incoming.request);
    if (body === undefined) {
      this.#tellEnd(incoming, 'cancelled', null);
      return undefined;
    }
    if (!body.ok) return body.problem;
    const parsed = parse(incoming.kind, body.value);
    if (!parsed.ok) return parsed.problem;
    incoming.model = parsed.value.model;
    const found = this.#deps.registry.lookup(parsed.value.model);
    if (found.kind === 'unknown') return unknownModel(parsed.value.model);
    this.#checkOpen();
    if (found.kind === 'unavailable') return unavailableModel(parsed.value.model, found.reason);
    incoming.model = found.model.card.name;
    incoming.lora = found.lora;
    const prompts = await this.#prepare(incoming, parsed.value, found);
    if (!prompts.ok) return prompts.problem;
    this.#start(incoming, parsed.value, found, prompts.value);
    return undefined;
  }

  /** Ends early when the client leaves. */
  async #prepare(
    { response, traceparent }: Incoming,
    request: ChatRequest | CompletionRequest,
    found: FoundModel,
  ): Promise<Checked<Prompt[]>> {
    const span = this.#deps.context.tracer.start('frontend.prepare', traceparent);
    const gone = new AbortController();
    const leave = (): void => gone.abort();
    response.once('close', leave);
    try {
      const prompts = await preparePrompts(request, found, gone.signal);
      span.end();
      return prompts;
    } catch (error) {
      span.end(error);
      throw error;
    } finally {
      response.off('close', leave);
    }
  }

  #start(
    { kind, response, receivedAtMs, traceparent }: Incoming,
    request: ChatRequest | CompletionRequest,
    { model, lora }: FoundModel,
    prompts: Prompt[],
  ): void {
    const { context, dispatcher, flusher } = this.#deps;
    const { params } = request;
    const head: AnswerHead = {
      kind,
      id: `${kind === 'chat' ? 'chatcmpl' : 'cmpl'}-${randomHex()}`,
      created: Math.floor(context.clock.wallMs() / 1_000),
      model: request.model,
    };
    const sink = params.isStream
      ? new SseSink(response, head, {
          flusher,
          includeUsage: params.includeUsage,
          nowMs: receivedAtMs,
        })
      : new JsonSink(response, head, prompts.length * params.candidates);
    const generation = new Generation(
      {
        id: head.id,
        model: model.card.name,
        lora,
        params,
        prompts,
        tokenizer: model.tokenizer,
        sink,
        receivedAtMs,
        traceparent,
      },
      dispatcher,
    );
    // The response is the side to watch: the request closes as soon as its body is read.
    response.once('close', () => {
      generation.cancel();
      if (sink instanceof SseSink) sink.close();
    });
    if (response.destroyed) generation.cancel();
    else dispatcher.start(generation);
  }

  #checkOpen(): void {
    const { context, dispatcher } = this.#deps;
    if (this.#isDraining) {
      throw new FrontendError('FRONTEND_DRAINING', 'This server is going down; ask another one.');
    }
    if (dispatcher.candidateCount >= limit('frontendInFlight')) {
      throw new FrontendError('FRONTEND_FULL', 'Too many requests are running.');
    }
    const { status } = context.bus;
    if (status !== 'connected') {
      throw new FrontendError('FRONTEND_BUS_DOWN', `bus ${status}`);
    }
  }
}

function parse(kind: AnswerKind, text: string): Checked<ChatRequest | CompletionRequest> {
  const body = parseJsonObject(text);
  if (!body.ok) return body;
  return kind === 'chat' ? parseChatRequest(body.value) : parseCompletionRequest(body.value);
}

/** The client's own trace, written anew: what is no trace goes no further. */
function traceparentOf({ headers }: IncomingMessage): string | undefined {
  const given = headers['traceparent'];
  const trace = parseTraceparent(typeof given === 'string' ? given : undefined);
  return trace === undefined ? undefined : formatTraceparent(trace);
}
