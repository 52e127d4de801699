import { AppError, messageOf } from '@busbar/base';
import { limit, type Outcome, type RouteReply, type StreamDelta } from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import type { Candidate, Placement } from './candidate.ts';
import { FrontendError } from './errors.ts';
import type { Generation, GenerationHost } from './generation.ts';
import { LifePublisher } from './life-publisher.ts';
import type { FrontendMetrics } from './metrics.ts';
import { PlacementClient } from './placement-client.ts';
import { Streams } from './streams.ts';
import { WorkSender } from './work-sender.ts';
import { WorkerWatch } from './worker-watch.ts';

/**
 * Brings candidates to workers and keeps them going: place, book, send, and again elsewhere while nothing of the answer
 * was shown. Every booking ends with a `life` event, whatever happens.
 */
export class Dispatcher implements GenerationHost {
  readonly #context: ServiceContext;
  readonly #metrics: FrontendMetrics;
  readonly #hasOtherRouters: () => boolean;
  readonly #placements: PlacementClient;
  readonly #sender: WorkSender;
  readonly #life: LifePublisher;
  readonly #streams: Streams;
  readonly #workers: WorkerWatch;
  readonly #generations = new Set<Generation>();
  #candidateCount = 0;
  #idle: (() => void) | undefined;

  constructor(
    context: ServiceContext,
    metrics: FrontendMetrics,
    hasWorkers: (model: string) => boolean,
    hasOtherRouters: () => boolean,
  ) {
    const { bus, subjects, id, clock, rng } = context;
    this.#context = context;
    this.#metrics = metrics;
    this.#hasOtherRouters = hasOtherRouters;
    this.#placements = new PlacementClient({
      bus,
      subjects,
      frontendId: id,
      hasWorkers,
      giveBack: (model, place) => this.#endBooking(model, place, 'cancelled', 0),
    });
    this.#sender = new WorkSender(bus, subjects, id);
    this.#life = new LifePublisher(bus, subjects, id, metrics);
    this.#workers = new WorkerWatch({
      bus,
      clock,
      host: {
        lose: (candidate, error) => this.lose(candidate, error),
        probe: (workerId, timeoutMs) => this.#sender.probe(workerId, timeoutMs),
      },
    });
    this.#streams = new Streams({
      bus,
      subjects,
      frontendId: id,
      clock,
      rng,
      metrics,
      host: {
        heard: (workerId, nowMs) => this.#workers.heard(workerId, nowMs),
        batchesLost: (workerId, nowMs) => this.#workers.suspect(workerId, nowMs),
        tokensLost: (candidate) => this.lose(candidate, tokensLost()),
        cancelStrays: (workerId, streamIds) => this.#sender.cancel(workerId, streamIds),
      },
    });
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** Candidates of all running generations, placed or not. */
  get candidateCount(): number {
    return this.#candidateCount;
  }

  get workers(): WorkerWatch {
    return this.#workers;
  }

  start(generation: Generation): void {
    this.#generations.add(generation);
    this.#candidateCount += generation.candidates.length;
    for (const candidate of generation.candidates) void this.#place(candidate);
  }

  firstDelta(candidate: Candidate, nowMs: number): void {
    const { generation, placement } = candidate;
    this.#metrics.firstToken((nowMs - generation.receivedAtMs) / 1_000);
    if (placement === undefined) return;
    this.#life.publish(generation.model, {
      kind: 'firstToken',
      decisionId: placement.decisionId,
      workerId: placement.workerId,
      cachedTokens: candidate.cachedTokens,
      ttftMs: nowMs - placement.placedAtMs,
    });
  }

  release(candidate: Candidate, outcome: Outcome, isRunning: boolean): void {
    const { placement, generation } = candidate;
    if (placement === undefined) return;
    candidate.placement = undefined;
    this.#streams.close(placement.streamId);
    this.#workers.detach(placement.workerId, candidate);
    if (isRunning) this.#sender.cancel(placement.workerId, [placement.streamId]);
    this.#metrics.outputTokens(candidate.position);
    this.#endBooking(generation.model, placement, outcome, candidate.position);
  }

  lose(candidate: Candidate, error: AppError): void {
    if (candidate.isDone) return;
    const { placement, position } = candidate;
    const isRefusal = error.code.startsWith('WORKER_') && error.code !== 'WORKER_FAULT';
    this.release(candidate, isRefusal ? 'rejected' : 'failed', !isRefusal);
    const mayRetry = error.retryable && position === 0;
    if (!mayRetry || candidate.attempts >= limit('placementAttempts')) {
      candidate.generation.fail(error);
      return;
    }
    if (placement !== undefined) candidate.excluded.push(placement.workerId);
    candidate.suspectSinceMs = 0;
    candidate.lastRefusal = error.code;
    this.#metrics.retry(error.code);
    this.#context.log.debug({ code: error.code, reason: error.message }, 'placed elsewhere');
    void this.#place(candidate);
  }

  engineError(delta: StreamDelta): AppError {
    if (delta.finish === 'cancelled') {
      const message = 'the worker stopped the stream';
      return new FrontendError('FRONTEND_WORKER_LOST', message, { retryable: true });
    }
    const { message = 'engine error', retryable = false } = delta.error ?? {};
    return new AppError('WORKER_FAULT', message, { retryable });
  }

  ended(generation: Generation, outcome: Outcome): void {
    if (!this.#generations.delete(generation)) return;
    this.#candidateCount -= generation.candidates.length;
    const { promptTokens, cachedTokens } = generation.usage();
    if (outcome === 'completed') this.#metrics.promptTokens(promptTokens, cachedTokens);
    const nowMs = this.#context.clock.monotonicMs();
    this.#metrics.requestEnded(outcome, (nowMs - generation.receivedAtMs) / 1_000);
    if (this.#generations.size === 0) this.#idle?.();
  }

  /** Resolves when no generation is left; when `signal` fires, those that are left end with an error. */
  async drain(signal: AbortSignal): Promise<void> {
    if (this.#generations.size > 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    const error = new FrontendError('FRONTEND_DRAINING', 'The server is going down.');
    for (const generation of this.#generations) generation.fail(error);
    this.#life.flush();
  }

  stop(): void {
    this.#life.stop();
    this.#streams.stop();
    this.#workers.stop();
  }

  /** Never rejects: what goes wrong ends the candidate or places it again. */
  async #place(candidate: Candidate): Promise<void> {
    const run = ++candidate.run;
    const isWanted = (): boolean => candidate.run === run && !candidate.isDone;
    const { traceparent } = candidate.generation;
    const routeSpan = this.#context.tracer.start('frontend.route', traceparent);
    let reply: Extract<RouteReply, { kind: 'place' }>;
    candidate.attempts++;
    // What waits is told in the same write: it costs no wake-up of its own, and the decision rests on the newest.
    this.#life.flush();
    try {
      reply = await this.#placements.place(
        candidate,
        routeSpan.traceparent ?? traceparent,
        isWanted,
      );
      routeSpan.end();
    } catch (error) {
      routeSpan.end(error);
      if (isWanted()) candidate.generation.fail(toAppError(error));
      return;
    }
    const placement = this.#book(candidate, reply, isWanted());
    if (placement === undefined) return;
    const workSpan = this.#context.tracer.start('frontend.work', traceparent);
    try {
      await this.#sender.send(
        candidate,
        placement,
        workSpan.traceparent ?? traceparent,
        () => candidate.placement === placement,
      );
      workSpan.end();
    } catch (error) {
      workSpan.end(error);
      // Tokens that already came say more than an acknowledgement that did not.
      if (candidate.placement !== placement || candidate.position > 0) return;
      this.lose(candidate, toAppError(error));
    }
  }

  /** Takes the decision, or gives it back when the candidate is not wanted any more. */
  #book(
    candidate: Candidate,
    reply: Extract<RouteReply, { kind: 'place' }>,
    isWanted: boolean,
  ): Placement | undefined {
    const { decisionId, routerId, workerId, expectedCachedTokens } = reply;
    const { generation, prompt } = candidate;
    const placement: Placement = {
      streamId: isWanted ? this.#streams.open(candidate) : 0,
      decisionId,
      routerId,
      workerId,
      placedAtMs: this.#context.clock.monotonicMs(),
    };
    if (!isWanted) {
      this.#endBooking(generation.model, placement, 'cancelled', 0);
      return undefined;
    }
    candidate.placement = placement;
    this.#workers.attach(workerId, candidate);
    // The router that decided has booked already; only others have to hear of it.
    if (!this.#hasOtherRouters()) return placement;
    this.#life.publish(
      generation.model,
      {
        kind: 'booked',
        decisionId,
        routerId,
        workerId,
        promptTokens: prompt.tokens.length,
        maxTokens: prompt.maxTokens,
        expectedCachedTokens,
        blocks: prompt.hashes.length >> 1,
      },
      prompt.hashes,
    );
    return placement;
  }

  #endBooking(
    model: string,
    { decisionId, workerId }: Pick<Placement, 'decisionId' | 'workerId'>,
    outcome: Outcome,
    outputTokens: number,
  ): void {
    this.#life.publish(model, { kind: 'ended', decisionId, workerId, outcome, outputTokens });
  }
}

function tokensLost(): FrontendError {
  return new FrontendError('FRONTEND_TOKENS_LOST', 'a batch of tokens is missing', {
    retryable: true,
  });
}

function toAppError(error: unknown): AppError {
  return error instanceof AppError
    ? error
    : new FrontendError('FRONTEND_INTERNAL', messageOf(error), { cause: error });
}
