import type { MockDelta } from '@busbar/mocker';
import { type LifeEvent, limit, type Outcome, type RouteReply } from '@busbar/protocol';

export type PrefillPlace = NonNullable<Extract<RouteReply, { kind: 'place' }>['prefill']>;

/** What a prefill leg asks of the frontend around it. */
export interface PrefillLegHost {
  tell(event: LifeEvent): void;
  /** Stops the leg's work, or gives up the KV that it has staged. */
  cancel(leg: SimPrefillLeg): void;
  /** The leg is over: its KV is staged, or it failed. Not called for one that was given up. */
  over(leg: SimPrefillLeg, result: 'staged' | 'failed'): void;
}

/**
 * The first half of a split request, step by step as the live frontend takes it: its booking ends with its stream, and the KV that it
 * staged is given up unless the decode worker has shown a token.
 */
export class SimPrefillLeg {
  readonly key: number;
  readonly place: PrefillPlace;
  cachedTokens = 0;
  /** A decode worker may have begun to fetch the KV. */
  isOffered = false;
  #stagedMs = 0;
  readonly #host: PrefillLegHost;
  readonly #beganMs: number;
  #outputTokens = 0;
  #state: 'running' | 'staged' | 'over' = 'running';

  constructor(key: number, place: PrefillPlace, host: PrefillLegHost, nowMs: number) {
    this.key = key;
    this.place = place;
    this.#host = host;
    this.#beganMs = nowMs;
  }

  get workerId(): string {
    return this.place.workerId;
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  /** How long the KV that it has staged will wait from now on. */
  validForMs(nowMs: number): number {
    return this.#state === 'staged' ? limit('stagedKvMs') - (nowMs - this.#stagedMs) : 0;
  }

  /** Whether the KV may be had from another decode worker than the one that it was computed for. */
  mayBeKept(nowMs: number): boolean {
    return !this.isOffered && this.validForMs(nowMs) >= limit('routeTimeoutMs');
  }

  accept(delta: MockDelta, nowMs: number): void {
    if (this.#state !== 'running') return;
    if (this.#outputTokens === 0 && delta.tokens.length > 0) {
      const { decisionId, workerId } = this.place;
      this.cachedTokens = delta.cachedTokens ?? 0;
      const { cachedTokens } = this;
      const ttftMs = nowMs - this.#beganMs;
      this.#host.tell({ kind: 'firstToken', decisionId, workerId, cachedTokens, ttftMs });
    }
    this.#outputTokens += delta.tokens.length;
    if (delta.finish === 'none') return;
    if (delta.finish === 'error' || delta.finish === 'cancelled') {
      this.lose('failed');
      return;
    }
    this.#end('completed');
    this.#state = 'staged';
    this.#stagedMs = nowMs;
    this.#host.over(this, 'staged');
  }

  /** The prefill worker refused the work, or cannot go on with it. */
  lose(outcome: 'rejected' | 'failed'): void {
    if (this.#state !== 'running') return;
    this.#end(outcome);
    this.#state = 'over';
    if (outcome === 'failed') this.#host.cancel(this);
    this.#host.over(this, 'failed');
  }

  /** The decode worker has the KV. */
  handOver(): void {
    this.#state = 'over';
  }

  /** Ends what runs and frees what is staged; does nothing after `handOver`. */
  giveUp(): void {
    if (this.#state === 'over') return;
    if (this.#state === 'running') this.#end('cancelled');
    this.#state = 'over';
    this.#host.cancel(this);
  }

  #end(outcome: Outcome): void {
    const { decisionId, workerId } = this.place;
    const outputTokens = this.#outputTokens;
    this.#host.tell({ kind: 'ended', decisionId, workerId, outcome, outputTokens });
  }
}
