import { type Clock, messageOf } from '@busbar/base';
import { type Bus, BusError } from '@busbar/bus';
import {
  createCloudEvent,
  type EventKind,
  encodeCloudEvent,
  type Subjects,
} from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';

/** How long what is known of the listeners of a kind is taken for true: one who comes misses at most this and `NOBODY_MS`. */
const LISTENERS_KNOWN_MS = 1_000;
/** The server says at once when nobody listens; listeners say nothing. */
const NOBODY_MS = 250;

interface Listeners {
  lookedMs: number;
  areThere: boolean;
}

interface PublisherOptions {
  bus: Bus;
  subjects: Subjects;
  clock: Clock;
  log: Logger;
  source: string;
  epoch: number;
}

/** Publishes CloudEvents of one process; ids are unique over all its starts. Never throws. */
export class EventPublisher {
  readonly #options: PublisherOptions;
  readonly #listeners = new Map<EventKind, Listeners>();
  #count = 0;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  publish(kind: EventKind, subject: string, data: Record<string, unknown>): void {
    const { bus, subjects, log } = this.#options;
    try {
      bus.publish(subjects.event(kind), this.#encode(kind, subject, data));
    } catch (error) {
      log.debug({ kind, reason: messageOf(error) }, 'an event could not be published');
    }
  }

  /**
   * For events of every request: publishes only while somebody listens, and asks for the data only then. One event a second goes out
   * in any case, as a question that the server answers when nobody listens.
   */
  offer(kind: EventKind, subject: string, data: () => Record<string, unknown>): void {
    const nowMs = this.#options.clock.monotonicMs();
    const listeners = this.#listeners.get(kind);
    if (listeners !== undefined && nowMs - listeners.lookedMs < LISTENERS_KNOWN_MS) {
      if (listeners.areThere) this.publish(kind, subject, data());
      return;
    }
    const looked = { lookedMs: nowMs, areThere: listeners?.areThere ?? false };
    this.#listeners.set(kind, looked);
    void this.#look(kind, this.#encode(kind, subject, data()), looked);
  }

  /** Publishes the event and notes whether anybody heard it. Never rejects. */
  async #look(kind: EventKind, event: Uint8Array, looked: Listeners): Promise<void> {
    const { bus, subjects } = this.#options;
    try {
      await bus.request(subjects.event(kind), event, { timeoutMs: NOBODY_MS });
      // A stream that keeps events acknowledges them.
      looked.areThere = true;
    } catch (error) {
      looked.areThere = error instanceof BusError && error.code === 'BUS_TIMEOUT';
    }
  }

  #encode(kind: EventKind, subject: string, data: Record<string, unknown>): Uint8Array {
    const { epoch, source, clock } = this.#options;
    this.#count++;
    return encodeCloudEvent(
      createCloudEvent(kind, {
        id: `${epoch.toString(36)}-${this.#count}`,
        source,
        time: new Date(clock.wallMs()).toISOString(),
        subject,
        data,
      }),
    );
  }
}
