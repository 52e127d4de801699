import type { ServiceContext } from '@busbar/service';

const PULSE_MS = 250;
/** Two pulses that did not come: this process stood still, and did not hear who spoke meanwhile. */
const STANDSTILL_MS = 3 * PULSE_MS;

/** Knows when this process could not listen: the bus was away, or the process itself stood still. */
export class Attention {
  readonly #context: Pick<ServiceContext, 'clock' | 'bus'>;
  readonly #onRegained: (nowMs: number) => void;
  readonly #timer: NodeJS.Timeout;
  readonly #stopStatus: () => void;
  #aliveMs: number;
  #sinceMs: number;

  /** `onRegained` is called when it can listen again, before what came meanwhile is read. */
  constructor(context: Pick<ServiceContext, 'clock' | 'bus'>, onRegained: (nowMs: number) => void) {
    this.#context = context;
    this.#onRegained = onRegained;
    this.#aliveMs = this.#sinceMs = context.clock.monotonicMs();
    this.#timer = setInterval(() => this.nowMs(), PULSE_MS).unref();
    this.#stopStatus = context.bus.onStatus((change) => {
      if (change === 'reconnected') this.#regain(this.nowMs());
    });
  }

  /** The time, of which nothing was missed from `sinceMs` on. Whatever is done with a message asks for it first. */
  nowMs(): number {
    const nowMs = this.#context.clock.monotonicMs();
    const stoodMs = nowMs - this.#aliveMs;
    this.#aliveMs = nowMs;
    if (stoodMs > STANDSTILL_MS) this.#regain(nowMs);
    return nowMs;
  }

  /** Since when it has listened without a break. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#stopStatus();
  }

  #regain(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#onRegained(nowMs);
  }
}
