import type { Clock } from '@busbar/base';
import type { SseSink } from './sse-sink.ts';

/** Flushes every stream that got events once for each piece that was read of the bus, and keeps silent ones alive. */
export class SinkFlusher {
  readonly #clock: Clock;
  readonly #keepaliveMs: number;
  readonly #sinks = new Set<SseSink>();
  readonly #timer: NodeJS.Timeout;
  #dirty: SseSink[] = [];
  #isScheduled = false;
  readonly #flush = (): void => this.#flushAll();

  constructor(clock: Clock, keepaliveMs: number) {
    this.#clock = clock;
    this.#keepaliveMs = keepaliveMs;
    this.#timer = setInterval(() => this.#keepAlive(), Math.min(1_000, keepaliveMs / 4));
    this.#timer.unref();
  }

  add(sink: SseSink): void {
    this.#sinks.add(sink);
  }

  remove(sink: SseSink): void {
    this.#sinks.delete(sink);
  }

  /**
   * Flush this one when what runs now has run: all messages of one piece of the bus connection, so that a loop that lags merges
   * steps by itself. An immediate would be another phase of the loop, which an idle process pays for with each step. The caller
   * marks a sink once until its next flush.
   */
  mark(sink: SseSink): void {
    this.#dirty.push(sink);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    void Promise.resolve().then(this.#flush);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #flushAll(): void {
    this.#isScheduled = false;
    const dirty = this.#dirty;
    this.#dirty = [];
    const nowMs = this.#clock.monotonicMs();
    for (const sink of dirty) sink.flush(nowMs);
  }

  #keepAlive(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const sink of this.#sinks) sink.keepAlive(nowMs, this.#keepaliveMs);
  }
}
