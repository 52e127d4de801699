import type { Clock } from '@busbar/base';
import type { SseSink } from './sse-sink.ts';

/** Flushes every stream that got events once for each turn of the event loop, and keeps silent ones alive. */
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

  /** Flush this one at the end of the turn. The caller marks a sink once until its next flush. */
  mark(sink: SseSink): void {
    this.#dirty.push(sink);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#flush);
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
