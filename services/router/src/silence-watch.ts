import type { ServiceContext } from '@busbar/service';
import type { WorkerStats } from './worker-stats.ts';

const CHECK_MS = 250;

/** Says when a registered worker stops sending heartbeats, and when it sends them again. */
export class SilenceWatch {
  readonly #context: ServiceContext;
  readonly #stats: ReadonlyMap<string, WorkerStats>;
  readonly #limitMs: number;
  readonly #silent = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  readonly #stopStatus: () => void;
  #connectedMs = 0;

  constructor(context: ServiceContext, stats: ReadonlyMap<string, WorkerStats>, limitMs: number) {
    this.#context = context;
    this.#stats = stats;
    this.#limitMs = limitMs;
    this.#timer = setInterval(() => this.check(), CHECK_MS);
    this.#timer.unref();
    this.#stopStatus = context.bus.onStatus((change) => {
      if (change === 'reconnected') this.#connectedMs = context.clock.monotonicMs();
    });
  }

  check(): void {
    // While the bus is away nobody can be heard, which says nothing of the workers.
    if (this.#context.bus.status !== 'connected') return;
    const nowMs = this.#context.clock.monotonicMs();
    for (const [workerId, { joinedAtMs, lastLoadAtMs }] of this.#stats) {
      const silentMs = Math.round(nowMs - Math.max(lastLoadAtMs ?? joinedAtMs, this.#connectedMs));
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
      if (!this.#stats.has(workerId)) this.#silent.delete(workerId);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#stopStatus();
  }
}
