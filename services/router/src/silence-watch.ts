import type { ServiceContext } from '@busbar/service';
import type { Desk } from './desk.ts';

const CHECK_MS = 250;

/** Says when a registered worker stops sending heartbeats, and when it sends them again. */
export class SilenceWatch {
  readonly #context: ServiceContext;
  readonly #desk: Pick<Desk, 'stats' | 'attention'>;
  readonly #limitMs: number;
  readonly #silent = new Set<string>();
  readonly #timer: NodeJS.Timeout;

  constructor(context: ServiceContext, desk: Pick<Desk, 'stats' | 'attention'>, limitMs: number) {
    this.#context = context;
    this.#desk = desk;
    this.#limitMs = limitMs;
    this.#timer = setInterval(() => this.check(), CHECK_MS);
    this.#timer.unref();
  }

  check(): void {
    // While the bus is away nobody can be heard, which says nothing of the workers.
    if (this.#context.bus.status !== 'connected') return;
    const { stats, attention } = this.#desk;
    const nowMs = attention.nowMs();
    for (const [workerId, { joinedAtMs, lastLoadAtMs }] of stats) {
      const silentMs = Math.round(nowMs - Math.max(lastLoadAtMs ?? joinedAtMs, attention.sinceMs));
      const isSilent = silentMs > this.#limitMs;
      if (isSilent && !this.#silent.has(workerId)) {
        this.#silent.add(workerId);
        this.#context.log.warn({ workerId, silentMs }, 'a worker sends no heartbeats');
        const reason = `no heartbeat for ${silentMs} ms`;
        this.#context.publishEvent('worker.degraded', workerId, { reason });
      } else if (!isSilent && this.#silent.delete(workerId)) {
        this.#context.log.info({ workerId }, 'a worker sends heartbeats again');
        this.#context.publishEvent('worker.recovered', workerId, { reason: 'heartbeats again' });
      }
    }
    for (const workerId of this.#silent) {
      if (!stats.has(workerId)) this.#silent.delete(workerId);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
