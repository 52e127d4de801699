import type { AppError } from '@busbar/base';
import {
  type KvSource,
  limit,
  type StreamDelta,
  type TransferParams,
  transferParamsBytes,
} from '@busbar/protocol';
import type { Candidate } from '../candidate.ts';
import { engineError, isRefusal } from '../engine-error.ts';
import { FrontendError } from '../errors.ts';
import type { SplitOutcome } from '../metrics.ts';
import type { BookingEnd, PrefillPlace } from '../placement/bookings.ts';
import type { StreamOwner } from '../streams/stream-owner.ts';

/** What a message holds of the source of KV beside the transfer's own parameters. */
const SOURCE_BYTES = 1_024;
/** KV that has less time left is not kept for another decode worker: to find one may take as long. */
const KEEP_MS = limit('routeTimeoutMs');

/** What a prefill leg needs of the machinery around it. */
export interface PrefillHost {
  /** Opens a stream on the leg's worker; its tokens and its end are the leg's from now on. */
  open(leg: PrefillLeg): number;
  /** Nothing more is expected of the stream. */
  close(leg: PrefillLeg): void;
  /** Stops the stream, or gives up the KV that it has staged. */
  cancel(leg: PrefillLeg): void;
  /** The KV that it has staged is with the decode worker. */
  fetched(leg: PrefillLeg): void;
  firstToken(leg: PrefillLeg, ttftMs: number): void;
  ended(leg: PrefillLeg, end: BookingEnd): void;
  staged(leg: PrefillLeg, seconds: number): void;
  splitEnded(outcome: SplitOutcome): void;
}

export type PrefillResult =
  | { kind: 'staged' }
  | { kind: 'failed'; error: AppError }
  /** The request ended or moved before the prefill did. */
  | { kind: 'given-up' };

/**
 * The first half of a split request: a stream of its own on the prefill worker, which computes the prompt and keeps its KV. Its
 * booking ends with its stream; the KV that it staged is given up unless the decode worker has shown a token.
 */
export class PrefillLeg implements StreamOwner {
  readonly candidate: Candidate;
  readonly place: PrefillPlace;
  readonly streamId: number;
  /** Resolves when the leg is over; never rejects. */
  readonly result: Promise<PrefillResult>;
  readonly lastDeltaMs = 0;
  readonly isFetching = false;
  position = 0;
  suspectSinceMs = 0;
  /** A decode worker may have begun to fetch the KV. Blocks that were fetched once may hold another request. */
  isOffered = false;
  /** Prompt tokens that the prefill worker found in its cache, when it has said so. */
  cachedTokens: number | undefined;
  readonly #host: PrefillHost;
  readonly #startedAtMs: number;
  #settle: (result: PrefillResult) => void = () => {};
  #state: 'running' | 'staged' | 'over' = 'running';
  #isSplitEnded = false;
  #isCachedTold = false;
  #staged: { transfer: TransferParams; bytes: number; atMs: number } | undefined;

  constructor(candidate: Candidate, place: PrefillPlace, host: PrefillHost, nowMs: number) {
    this.candidate = candidate;
    this.place = place;
    this.#host = host;
    this.#startedAtMs = nowMs;
    this.result = new Promise((resolve) => (this.#settle = resolve));
    this.streamId = host.open(this);
  }

  get workerId(): string {
    return this.place.workerId;
  }

  get promptTokens(): number {
    return this.candidate.promptTokens;
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  /** Bytes that `kvSource` may take in a message. */
  get sourceBytes(): number {
    return (this.#staged?.bytes ?? 0) + SOURCE_BYTES;
  }

  /** Where the KV waits, or undefined when it is given up or may be gone by now. */
  kvSource(nowMs: number): KvSource | undefined {
    if (this.#state !== 'staged' || this.#staged === undefined) return undefined;
    const { transfer, atMs } = this.#staged;
    const validForMs = limit('stagedKvMs') - (nowMs - atMs);
    if (validForMs <= 0) return undefined;
    return { prefillWorkerId: this.workerId, transfer, validForMs };
  }

  /** Whether the KV may be had from another decode worker than the one that it was computed for. */
  mayBeKept(nowMs: number): boolean {
    const { validForMs = 0 } = this.kvSource(nowMs) ?? {};
    return !this.isOffered && validForMs >= KEEP_MS;
  }

  accept(delta: StreamDelta, nowMs: number): void {
    this.suspectSinceMs = 0;
    this.cachedTokens = delta.cachedTokens ?? this.cachedTokens;
    if (this.position === 0 && delta.tokens.length > 0) {
      this.#isCachedTold = this.cachedTokens !== undefined;
      this.#host.firstToken(this, nowMs - this.#startedAtMs);
    }
    this.position += delta.tokens.length;
    if (delta.finish === 'none') return;
    if (delta.finish === 'error' || delta.finish === 'cancelled') this.lose(engineError(delta));
    else this.#onEnd(delta.transfer, nowMs);
  }

  lose(error: AppError): void {
    if (this.#state !== 'running') return;
    const isRefused = isRefusal(error);
    this.#end(isRefused ? 'rejected' : 'failed');
    this.#state = 'over';
    if (!isRefused) this.#host.cancel(this);
    this.#settle({ kind: 'failed', error });
  }

  fail(error: AppError): void {
    this.candidate.generation.fail(error);
  }

  /** The decode worker has the KV: what is staged is the engines' matter from now on. */
  handOver(): void {
    // Over `tcp` the prefill engine is told by the one that fetches.
    const isTold = this.#staged?.transfer.protocol === 'tcp';
    if (this.#state === 'staged' && !isTold) this.#host.fetched(this);
    this.#state = 'over';
    this.endSplit('fetched');
  }

  /**
   * Ends what runs and frees what is staged. Does nothing after `handOver`. Whatever ended the request, the prefill worker is not to
   * blame for it: its booking ends as cancelled.
   */
  giveUp(split: SplitOutcome): void {
    this.endSplit(split);
    if (this.#state === 'over') return;
    if (this.#state === 'running') this.#end('cancelled');
    this.#state = 'over';
    this.#host.cancel(this);
    this.#settle({ kind: 'given-up' });
  }

  /** Counts what became of the split; only the first call does. */
  endSplit(outcome: SplitOutcome): void {
    if (this.#isSplitEnded) return;
    this.#isSplitEnded = true;
    this.#host.splitEnded(outcome);
  }

  #onEnd(transfer: TransferParams | undefined, nowMs: number): void {
    const bytes = transfer === undefined ? 0 : transferParamsBytes(transfer);
    if (transfer === undefined || bytes > limit('transferParamsBytes')) {
      const reason = transfer === undefined ? 'no word' : `${bytes} bytes`;
      const message = `worker ${this.workerId} ended with ${reason} of how to fetch the KV`;
      this.lose(new FrontendError('FRONTEND_NOT_STAGED', message));
      return;
    }
    this.#staged = { transfer, bytes, atMs: nowMs };
    this.#end('completed');
    this.#state = 'staged';
    this.#host.staged(this, (nowMs - this.#startedAtMs) / 1_000);
    this.#settle({ kind: 'staged' });
  }

  #end(outcome: BookingEnd['outcome']): void {
    this.#host.close(this);
    this.#host.ended(this, {
      outcome,
      outputTokens: this.position,
      cachedTokens: this.#isCachedTold ? undefined : this.cachedTokens,
    });
  }
}
