import { AppError } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import {
  encodeLifeBatch,
  type HashWords,
  type LifeEvent,
  limit,
  type Subjects,
} from '@busbar/protocol';
import type { FrontendMetrics } from '../metrics.ts';

/**
 * Each message wakes the bus and every router, which costs more than what it says; and a router that hears of
 * the bookings of others a little late errs by a request or two.
 */
const BATCH_MS = 40;
const RETRY_MS = 200;
const MAX_WAITING = 16_384;
const MAX_EVENTS = 512;
/** An event as JSON without its hashes is shorter. */
const EVENT_BYTES = 512;
const NONE = new Uint32Array(0);

interface Waiting {
  events: LifeEvent[];
  hashes: HashWords[];
}

/** Tells all routers what became of their decisions: what happens within a short time is one message for each model. */
export class LifePublisher {
  readonly #bus: Bus;
  readonly #subjects: Subjects;
  readonly #frontendId: string;
  readonly #metrics: FrontendMetrics;
  readonly #waiting = new Map<string, Waiting>();
  #count = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(bus: Bus, subjects: Subjects, frontendId: string, metrics: FrontendMetrics) {
    this.#bus = bus;
    this.#subjects = subjects;
    this.#frontendId = frontendId;
    this.#metrics = metrics;
  }

  /** Sends what waits and says nothing more. */
  stop(): void {
    this.flush();
    clearTimeout(this.#timer);
  }

  /** Queues one event. In an outage they are kept up to a limit; what is lost, lists of what is held make good. */
  publish(model: string, event: LifeEvent, hashes: HashWords = NONE): void {
    if (this.#count >= MAX_WAITING) {
      this.#metrics.lifeDropped(1);
      return;
    }
    let waiting = this.#waiting.get(model);
    if (waiting === undefined) {
      waiting = { events: [], hashes: [] };
      this.#waiting.set(model, waiting);
    }
    waiting.events.push(event);
    waiting.hashes.push(hashes);
    this.#count++;
    this.#timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  /** Sends what waits now. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const [model, waiting] of this.#waiting) {
      while (waiting.events.length > 0) {
        const count = fittingEvents(waiting);
        try {
          this.#bus.publish(
            this.#subjects.life(model),
            encodeLifeBatch({
              frontendId: this.#frontendId,
              events: waiting.events.slice(0, count),
              hashes: waiting.hashes.slice(0, count),
            }),
          );
        } catch (error) {
          if (!(error instanceof AppError)) throw error;
          this.#timer = setTimeout(() => this.flush(), RETRY_MS);
          this.#timer.unref();
          return;
        }
        waiting.events.splice(0, count);
        waiting.hashes.splice(0, count);
        this.#count -= count;
      }
      this.#waiting.delete(model);
    }
  }
}

/** How many of the first events fit into one message; at least one. */
function fittingEvents({ events, hashes }: Waiting): number {
  let bytes = 0;
  let count = 0;
  while (count < events.length && count < MAX_EVENTS) {
    bytes += EVENT_BYTES + (hashes[count]?.byteLength ?? 0);
    if (count > 0 && bytes > limit('messageBytes')) break;
    count++;
  }
  return count;
}
