import type { AppError } from '@busbar/base';
import type { WorkHeader } from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import type { Candidate, Placement } from '../candidate.ts';
import { FrontendError, toAppError } from '../errors.ts';
import type { FrontendMetrics } from '../metrics.ts';
import type { Bookings, Place, PrefillPlace } from '../placement/bookings.ts';
import type { Streams } from '../streams/streams.ts';
import type { WorkerWatch } from '../streams/worker-watch.ts';
import { type PrefillHost, PrefillLeg } from './prefill-leg.ts';
import { prefillHeader } from './work-header.ts';
import type { WorkSender } from './work-sender.ts';

interface Machinery {
  context: ServiceContext;
  metrics: FrontendMetrics;
  bookings: Bookings;
  sender: WorkSender;
  streams: Streams;
  workers: WorkerWatch;
}

/** Runs the prefill legs of split requests, and says what a failure of one means for the request. */
export class SplitRunner {
  readonly #parts: Machinery;
  readonly #host: PrefillHost;

  constructor(parts: Machinery) {
    this.#parts = parts;
    this.#host = hostOf(parts);
  }

  /**
   * Resolves when the decode leg can be sent, with `placement.prefill` set when KV is staged for it; when the request was released
   * meanwhile; or with the error that ends the request. Never rejects.
   */
  async prefill(
    candidate: Candidate,
    placement: Placement,
    place: PrefillPlace,
  ): Promise<AppError | undefined> {
    const { context } = this.#parts;
    const leg = new PrefillLeg(candidate, place, this.#host, context.clock.monotonicMs());
    placement.prefill = leg;
    const { traceparent } = candidate.generation;
    const span = context.tracer.start('frontend.prefill', traceparent);
    void this.#send(leg, span.traceparent ?? traceparent);
    const result = await leg.result;
    span.end(result.kind === 'failed' ? result.error : undefined);
    if (result.kind !== 'failed' || candidate.placement !== placement) return undefined;
    placement.prefill = undefined;
    return this.#failure(leg, result.error);
  }

  /**
   * What the last message of the decode leg carries: where the KV is. Nothing when it waited for too long and the decode worker may
   * compute the prompt itself; throws when it may not.
   */
  lastFields(candidate: Candidate, leg: PrefillLeg): Pick<WorkHeader, 'kvSource'> | undefined {
    const kvSource = leg.kvSource(this.#parts.context.clock.monotonicMs());
    if (kvSource !== undefined) {
      leg.isOffered = true;
      candidate.isFetched = true;
      candidate.cachedTokens = leg.cachedTokens;
      return { kvSource };
    }
    const message = `the KV at worker ${leg.workerId} waited for too long`;
    const error = this.#failure(leg, new FrontendError('FRONTEND_KV_EXPIRED', message));
    if (error !== undefined) throw error;
    leg.giveUp('local');
    return undefined;
  }

  /** Takes staged KV out of a placement that its decode worker refused, if another one may still fetch it. */
  keep(placement: Placement | undefined): PrefillLeg | undefined {
    const leg = placement?.prefill;
    if (placement === undefined || leg === undefined) return undefined;
    if (!leg.mayBeKept(this.#parts.context.clock.monotonicMs())) return undefined;
    placement.prefill = undefined;
    return leg;
  }

  /** Gives KV that was kept to the new placement, if the router sent it to a worker that can fetch it; else gives it up. */
  resume(candidate: Candidate, placement: Placement, { kvAt }: Place): void {
    const { kept } = candidate;
    if (kept === undefined) return;
    candidate.kept = undefined;
    if (kvAt !== kept.workerId) {
      kept.giveUp('moved');
      return;
    }
    placement.prefill = kept;
    this.#parts.metrics.splitReused();
  }

  /** What the loss of KV on its way means for the request: an error that may be retried, or its end. */
  kvLost(leg: PrefillLeg | undefined, error: AppError): AppError {
    return (leg === undefined ? undefined : this.#failure(leg, error)) ?? error;
  }

  /** The error that ends the request, or undefined when the prompt may be computed where it is decoded. */
  #failure(leg: PrefillLeg, error: AppError): AppError | undefined {
    const { context, metrics } = this.#parts;
    const { onFailure, workerId } = leg.place;
    context.log.debug(
      { code: error.code, workerId, reason: error.message },
      'a prefill leg failed',
    );
    if (onFailure === 'prefill-locally') {
      metrics.splitFallback(error.code);
      leg.endSplit('local');
      return undefined;
    }
    leg.endSplit('failed');
    if (isClientFault(error)) return error;
    const message = `The prefill of this request failed (${error.code}), and no other worker may do it.`;
    return new FrontendError('FRONTEND_PREFILL_FAILED', message, { cause: error });
  }

  async #send(leg: PrefillLeg, traceparent: string | undefined): Promise<void> {
    const { sender, context } = this.#parts;
    const { candidate, workerId, streamId, place } = leg;
    const header = prefillHeader(candidate, {
      streamId,
      frontendId: context.id,
      decisionId: place.decisionId,
      traceparent,
    });
    const { tokens } = candidate.prompt;
    try {
      await sender.send({ workerId, header, tokens }, () => leg.isRunning);
    } catch (error) {
      // A token that already came says more than an acknowledgement that did not.
      if (leg.position === 0) leg.lose(toAppError(error));
    }
  }
}

function hostOf({ context, metrics, bookings, sender, streams, workers }: Machinery): PrefillHost {
  const modelOf = (leg: PrefillLeg): string => leg.candidate.generation.model;
  return {
    open(leg) {
      workers.attach(leg.workerId, leg);
      return streams.open(leg);
    },
    close(leg) {
      streams.close(leg.streamId);
      workers.detach(leg.workerId, leg);
    },
    cancel: (leg) => sender.cancel(leg.workerId, [leg.streamId]),
    fetched: (leg) => sender.fetched(leg.workerId, leg.streamId),
    firstToken: (leg, ttftMs) =>
      bookings.firstToken(modelOf(leg), leg.place, ttftMs, leg.cachedTokens),
    ended: (leg, end) => bookings.ended(modelOf(leg), leg.place, end),
    staged(leg, seconds) {
      metrics.prefillLeg(seconds);
      context.log.debug({ workerId: leg.workerId, seconds }, 'KV staged');
    },
    splitEnded: (outcome) => metrics.splitEnded(outcome),
  };
}

/** A request that no worker would take is told as such. */
function isClientFault(error: AppError): boolean {
  return error.code === 'WORKER_BAD_REQUEST' || error.code === 'WORKER_TOO_LONG';
}
