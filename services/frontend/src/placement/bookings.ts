import type { Outcome, RouteReply } from '@busbar/protocol';
import type { Prompt } from '../prompt.ts';
import type { DecisionHoldings } from './decision-holdings.ts';
import type { LifePublisher } from './life-publisher.ts';

/** What a router decided: one booking, or two when the request is split. */
export type Place = Extract<RouteReply, { kind: 'place' }>;
export type PrefillPlace = NonNullable<Place['prefill']>;

/** Names one booking. */
export interface Booking {
  decisionId: string;
  workerId: string;
}

/** How a booking ended. */
export interface BookingEnd {
  outcome: Outcome;
  outputTokens: number;
  /** What the engine found in its cache, unless `firstToken` has told it. */
  cachedTokens?: number | undefined;
}

/** Tells routers what becomes of their decisions, so that each booking ends once. */
export class Bookings {
  readonly #life: LifePublisher;
  readonly #holdings: DecisionHoldings;
  readonly #hasOtherRouters: () => boolean;

  constructor(life: LifePublisher, holdings: DecisionHoldings, hasOtherRouters: () => boolean) {
    this.#life = life;
    this.#holdings = holdings;
    this.#hasOtherRouters = hasOtherRouters;
  }

  /** The router that decided has booked already; only others have to hear of it. */
  taken(model: string, place: Place, prompt: Prompt): void {
    if (!this.#hasOtherRouters()) return;
    const { routerId, prefill, kvAt } = place;
    const ask = this.#holdings.askOf(place.decisionId);
    const tell = (booking: Booking & { expectedCachedTokens: number }, more: object): void =>
      this.#life.publish(
        model,
        {
          kind: 'booked',
          decisionId: booking.decisionId,
          routerId,
          workerId: booking.workerId,
          promptTokens: prompt.tokens.length,
          maxTokens: prompt.maxTokens,
          expectedCachedTokens: booking.expectedCachedTokens,
          blocks: prompt.hashes.length >> 1,
          ...(ask === undefined ? {} : { ask }),
          ...more,
        },
        prompt.hashes,
      );
    const isFetched = prefill !== undefined || kvAt !== undefined;
    tell(place, {
      ...(isFetched ? { isFetched } : {}),
      ...(kvAt === undefined ? {} : { kvAt }),
    });
    if (prefill !== undefined) tell(prefill, { maxTokens: 1 });
  }

  firstToken(
    model: string,
    { decisionId, workerId }: Booking,
    ttftMs: number,
    cachedTokens: number | undefined,
  ): void {
    this.#life.publish(model, {
      kind: 'firstToken',
      decisionId,
      workerId,
      ttftMs,
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
    });
  }

  ended(model: string, { decisionId, workerId }: Booking, end: BookingEnd): void {
    const { outcome, outputTokens, cachedTokens } = end;
    this.#holdings.release(decisionId);
    this.#life.publish(model, {
      kind: 'ended',
      decisionId,
      workerId,
      outcome,
      outputTokens,
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
    });
  }

  /** Gives back a decision that nobody waits for any more. */
  giveBack(model: string, place: Place): void {
    const end: BookingEnd = { outcome: 'cancelled', outputTokens: 0 };
    this.ended(model, place, end);
    if (place.prefill !== undefined) this.ended(model, place.prefill, end);
  }

  /**
   * Sends what waits ahead of a placement request where that wakes nobody else: the one router hears both in one write, and decides on
   * the newest. Where there are others, each request would wake all of them.
   */
  flushForRequest(): void {
    if (!this.#hasOtherRouters()) this.#life.flush();
  }

  /** Sends what waits now. */
  flush(): void {
    this.#life.flush();
  }

  stop(): void {
    this.#life.stop();
  }
}
