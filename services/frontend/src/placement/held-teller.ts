import { AppError } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import { encodeHeldDecisions, limit, type Subjects } from '@busbar/protocol';
import type { DecisionHoldings } from './decision-holdings.ts';

/** Asks that are given up together are told together. */
const SOON_MS = 100;
/** Lists that are sent when nothing is held any more and nothing was asked: any of them may be lost. */
const LAST_LISTS = 3;

/** Tells all routers what this frontend holds, so that they drop bookings whose end, or whose answer, was lost. */
export class HeldTeller {
  readonly #bus: Bus;
  readonly #subject: string;
  readonly #holdings: DecisionHoldings;
  readonly #flush: () => void;
  readonly #interval: NodeJS.Timeout;
  #soon: NodeJS.Timeout | undefined;
  #toldAsks = 0;
  #lastLists = LAST_LISTS;

  /** `flush` sends what is told of bookings and still waits. */
  constructor(
    bus: Bus,
    subjects: Subjects,
    frontendId: string,
    holdings: DecisionHoldings,
    flush: () => void,
  ) {
    this.#bus = bus;
    this.#subject = subjects.held(frontendId);
    this.#holdings = holdings;
    this.#flush = flush;
    this.#interval = setInterval(() => this.#onInterval(), limit('heldIntervalMs'));
    this.#interval.unref();
  }

  stop(): void {
    clearInterval(this.#interval);
    clearTimeout(this.#soon);
  }

  /** An ask was given up: a router may have booked for it. */
  soon(): void {
    this.#soon ??= setTimeout(() => this.tell(), SOON_MS).unref();
  }

  /** Best effort: a list that is lost is made good by the next. */
  tell(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#toldAsks = this.#holdings.asks;
    this.#flush();
    try {
      for (const list of this.#holdings.lists()) {
        this.#bus.publish(this.#subject, encodeHeldDecisions(list));
      }
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
    }
  }

  #onInterval(): void {
    const { asks, size } = this.#holdings;
    if (asks !== this.#toldAsks || size > 0) this.#lastLists = 0;
    else if (++this.#lastLists > LAST_LISTS) return;
    this.tell();
  }
}
