import type { AppError } from '@busbar/base';
import { limit, type Outcome } from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import type { Candidate, Placement } from './candidate.ts';
import { blamesKv, isRefusal, isUntouched } from './engine-error.ts';
import { FrontendError, toAppError } from './errors.ts';
import type { Generation, GenerationHost } from './generation.ts';
import type { FrontendMetrics } from './metrics.ts';
import { Bookings, type Place } from './placement/bookings.ts';
import { DecisionHoldings } from './placement/decision-holdings.ts';
import { HeldTeller } from './placement/held-teller.ts';
import { LifePublisher } from './placement/life-publisher.ts';
import { PlacementClient } from './placement/placement-client.ts';
import { requestEventData } from './request-event.ts';
import { Streams } from './streams/streams.ts';
import { WorkerWatch } from './streams/worker-watch.ts';
import { repeatAfterOutages } from './work/outage-repeats.ts';
import { SplitRunner } from './work/split-runner.ts';
import { decodeHeader } from './work/work-header.ts';
import { type OutgoingWork, WorkSender } from './work/work-sender.ts';

/** What the stack has, as far as it bears on placing requests. */
export interface StackView {
  /** Whether a worker that may serve such a request is known to be ready. */
  hasWorkers: (model: string, lora: string | undefined) => boolean;
  hasOtherRouters: () => boolean;
  /** Ids of the routers that take requests. */
  readyRouters: () => readonly string[];
  /** A router refused a request because a role that its split insists on is missing. */
  noPair: (model: string, reason: string) => void;
}

/**
 * Brings candidates to workers and keeps them going: place, book, send, and again elsewhere while nothing of the answer
 * was shown. Every booking ends with a `life` event, whatever happens.
 */
export class Dispatcher implements GenerationHost {
  readonly #context: ServiceContext;
  readonly #metrics: FrontendMetrics;
  readonly #noPair: StackView['noPair'];
  readonly #placements: PlacementClient;
  readonly #sender: WorkSender;
  readonly #bookings: Bookings;
  readonly #streams: Streams;
  readonly #workers: WorkerWatch;
  readonly #splits: SplitRunner;
  readonly #held: HeldTeller;
  readonly #stopRepeats: () => void;
  readonly #generations = new Set<Generation>();
  #candidateCount = 0;
  #idle: (() => void) | undefined;

  constructor(context: ServiceContext, metrics: FrontendMetrics, view: StackView) {
    const { bus, subjects, id, clock, rng } = context;
    this.#context = context;
    this.#metrics = metrics;
    this.#noPair = view.noPair;
    const life = new LifePublisher(bus, subjects, id, metrics);
    const holdings = new DecisionHoldings();
    const bookings = new Bookings(life, holdings, view.hasOtherRouters);
    const held = new HeldTeller(bus, subjects, id, holdings, () => life.flush());
    const sender = new WorkSender(bus, subjects, id, metrics);
    this.#bookings = bookings;
    this.#sender = sender;
    this.#held = held;
    this.#stopRepeats = repeatAfterOutages(bus, {
      hold: () => sender.hold(),
      repeat() {
        held.tell();
        sender.repeat();
      },
      release: () => sender.release(),
    });
    this.#placements = new PlacementClient({
      bus,
      subjects,
      frontendId: id,
      hasWorkers: view.hasWorkers,
      readyRouters: view.readyRouters,
      giveBack: (model, place) => bookings.giveBack(model, place),
      holdings,
      onGivenUp: () => held.soon(),
    });
    const workers = new WorkerWatch({
      bus,
      clock,
      host: sender,
    });
    const streams = new Streams({
      bus,
      subjects,
      frontendId: id,
      clock,
      rng,
      metrics,
      host: {
        heard: (workerId, nowMs) => workers.heard(workerId, nowMs),
        batchesLost: (workerId, nowMs) => workers.suspect(workerId, nowMs),
        tokensLost: (owner) => owner.lose(tokensLost()),
        cancelStrays: (workerId, streamIds) => sender.cancel(workerId, streamIds),
      },
    });
    this.#workers = workers;
    this.#streams = streams;
    this.#splits = new SplitRunner({ context, metrics, bookings, sender, streams, workers });
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
    const { generation, placement, cachedTokens, isFetched } = candidate;
    this.#metrics.firstToken((nowMs - generation.receivedAtMs) / 1_000);
    if (placement === undefined) return;
    placement.prefill?.handOver();
    const told = isFetched ? undefined : cachedTokens;
    candidate.isCachedTold = told !== undefined;
    this.#bookings.firstToken(generation.model, placement, nowMs - placement.placedAtMs, told);
  }

  release(candidate: Candidate, outcome: Outcome, isRunning: boolean): void {
    const { placement, generation, position, kept } = candidate;
    const lost = outcome === 'cancelled' ? 'cancelled' : 'failed';
    candidate.kept = undefined;
    kept?.giveUp(lost);
    if (placement === undefined) return;
    candidate.placement = undefined;
    const { streamId, workerId, prefill } = placement;
    if (outcome === 'completed') prefill?.handOver();
    else prefill?.giveUp(lost);
    if (streamId !== 0) {
      this.#streams.close(streamId);
      this.#workers.detach(workerId, candidate);
      if (isRunning) this.#sender.cancel(workerId, [streamId]);
    }
    this.#metrics.outputTokens(position);
    const isTold = candidate.isFetched || candidate.isCachedTold;
    this.#bookings.ended(generation.model, placement, {
      outcome,
      outputTokens: position,
      cachedTokens: isTold ? undefined : candidate.cachedTokens,
    });
  }

  lose(candidate: Candidate, error: AppError): void {
    if (candidate.isDone) return;
    const { placement, position } = candidate;
    const isKvLost = candidate.isFetching && blamesKv(error);
    const fault = isKvLost ? this.#splits.kvLost(placement?.prefill, error) : error;
    const mayRetry =
      fault.retryable && position === 0 && candidate.attempts < limit('placementAttempts');
    const kept = mayRetry && !isKvLost ? this.#splits.keep(placement) : undefined;
    if (mayRetry) placement?.prefill?.giveUp(isKvLost ? 'local' : 'moved');
    const isRefused = isRefusal(fault);
    this.release(candidate, isRefused ? 'rejected' : 'failed', !isRefused);
    if (!mayRetry) {
      candidate.generation.fail(fault);
      return;
    }
    if (isKvLost) candidate.isWhole = true;
    else if (placement !== undefined) candidate.excluded.push(placement.workerId);
    candidate.restart();
    candidate.kept = kept;
    candidate.lastRefusal = fault.code;
    this.#metrics.retry(fault.code);
    this.#context.log.debug({ code: fault.code, reason: fault.message }, 'placed elsewhere');
    void this.#place(candidate);
  }

  ended(generation: Generation, outcome: Outcome): void {
    if (!this.#generations.delete(generation)) return;
    this.#candidateCount -= generation.candidates.length;
    const { promptTokens, cachedTokens } = generation.usage();
    if (outcome === 'completed') this.#metrics.promptTokens(promptTokens, cachedTokens);
    const nowMs = this.#context.clock.monotonicMs();
    this.#metrics.requestEnded(outcome, (nowMs - generation.receivedAtMs) / 1_000);
    this.#context.offerEvent('request.completed', generation.id, () =>
      requestEventData(generation, outcome, nowMs),
    );
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
    this.#failAll();
    this.#bookings.flush();
  }

  stop(): void {
    this.#failAll();
    this.#stopRepeats();
    this.#held.stop();
    this.#bookings.stop();
    this.#streams.stop();
    this.#workers.stop();
  }

  #failAll(): void {
    const error = new FrontendError('FRONTEND_DRAINING', 'The server is going down.');
    for (const generation of this.#generations) generation.fail(error);
  }

  /** Never rejects: what goes wrong ends the candidate or places it again. */
  async #place(candidate: Candidate): Promise<void> {
    const place = await this.#route(candidate);
    if (place === undefined) return;
    const placement = this.#book(candidate, place);
    this.#splits.resume(candidate, placement, place);
    if (place.prefill !== undefined) {
      const error = await this.#splits.prefill(candidate, placement, place.prefill);
      if (candidate.placement !== placement) return;
      if (error !== undefined) {
        this.lose(candidate, error);
        return;
      }
    }
    await this.#send(candidate, placement);
  }

  /** The decision for a candidate that still wants one. */
  async #route(candidate: Candidate): Promise<Place | undefined> {
    const run = ++candidate.run;
    const isWanted = (): boolean => candidate.run === run && !candidate.isDone;
    const { model, traceparent } = candidate.generation;
    const span = this.#context.tracer.start('frontend.route', traceparent);
    candidate.attempts++;
    this.#bookings.flushForRequest();
    try {
      const parent = span.traceparent ?? traceparent;
      const place = await this.#placements.place(candidate, parent, isWanted);
      span.end();
      if (isWanted()) return place;
      this.#bookings.giveBack(model, place);
    } catch (error) {
      span.end(error);
      const fault = toAppError(error);
      if (fault.code === 'ROUTER_NO_PAIR') this.#noPair(model, fault.message);
      if (isWanted()) candidate.generation.fail(fault);
    }
    return undefined;
  }

  #book(candidate: Candidate, place: Place): Placement {
    const { decisionId, routerId, workerId } = place;
    const placement: Placement = {
      streamId: 0,
      decisionId,
      routerId,
      workerId,
      placedAtMs: this.#context.clock.monotonicMs(),
      prefill: undefined,
    };
    candidate.placement = placement;
    candidate.lastWorkerId = workerId;
    this.#bookings.taken(candidate.generation.model, place, candidate.prompt);
    return placement;
  }

  async #send(candidate: Candidate, placement: Placement): Promise<void> {
    const { workerId, decisionId, prefill } = placement;
    const { traceparent } = candidate.generation;
    const streamId = this.#streams.open(candidate);
    placement.streamId = streamId;
    this.#workers.attach(workerId, candidate);
    const span = this.#context.tracer.start('frontend.work', traceparent);
    const header = decodeHeader(candidate, {
      streamId,
      frontendId: this.#context.id,
      decisionId,
      traceparent: span.traceparent ?? traceparent,
    });
    const work: OutgoingWork = { workerId, header, tokens: candidate.prompt.tokens };
    if (prefill !== undefined) {
      work.last = {
        bytes: prefill.sourceBytes,
        fields: () => this.#splits.lastFields(candidate, prefill),
      };
    }
    try {
      await this.#sender.send(work, () => candidate.placement === placement);
      span.end();
    } catch (error) {
      span.end(error);
      // Tokens that already came say more than an acknowledgement that did not.
      if (candidate.placement !== placement || candidate.position > 0) return;
      const fault = toAppError(error);
      if (prefill !== undefined && isUntouched(fault)) prefill.isOffered = false;
      this.lose(candidate, fault);
    }
  }
}

function tokensLost(): FrontendError {
  return new FrontendError('FRONTEND_TOKENS_LOST', 'a batch of tokens is missing', {
    retryable: true,
  });
}
