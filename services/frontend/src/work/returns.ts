import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '@busbar/base';
import { type Bus, BusError, type BusMessage, type RequestOptions } from '@busbar/bus';

/** Processes wait up to half a second between two attempts to connect, and then some time for the server to greet all of them. */
const RETURN_MS = 1_000;
const RETRY_MS = 50;

/** Knows when nobody listening does not mean that nobody is there: after an outage of the bus each process is back at its own time. */
export class Returns {
  readonly #bus: Bus;
  readonly #clock: Clock;
  readonly #stopStatus: () => void;
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(bus: Bus, clock: Clock) {
    this.#bus = bus;
    this.#clock = clock;
    this.#stopStatus = bus.onStatus((change) => {
      if (change === 'reconnected') this.#untilMs = clock.monotonicMs() + RETURN_MS;
    });
  }

  /** Whether others may still be on their way back. */
  get isOpen(): boolean {
    return this.#clock.monotonicMs() < this.#untilMs;
  }

  /** As the bus's own, but while others may be on their way back it asks until one listens, as long as `isWanted`. */
  async request(
    subject: string,
    data: Uint8Array,
    options: RequestOptions,
    isWanted: () => boolean,
  ): Promise<BusMessage> {
    for (;;) {
      try {
        return await this.#bus.request(subject, data, options);
      } catch (error) {
        const isNobody = error instanceof BusError && error.code === 'BUS_NO_RESPONDERS';
        if (!isNobody || !this.isOpen) throw error;
        await sleep(RETRY_MS);
        if (!isWanted()) throw error;
      }
    }
  }

  stop(): void {
    this.#stopStatus();
  }
}
