import type { CacheTruth, RouterEffect } from '@busbar/routing';
import type { ServiceContext } from '@busbar/service';

type TruthEffect = Extract<RouterEffect, { kind: 'truth' }>;

/** How much each state knows; also the value of the metric. */
export const TRUTH_RANK: Readonly<Record<CacheTruth, number>> = {
  'load-only': 0,
  approximate: 1,
  events: 2,
};

const REPEAT_MS = 3_000;

/**
 * Says aloud what the router does not believe of its workers' caches: a log line and an event at each change, and the event again
 * every few seconds while it lasts, so that who looks later hears of it too.
 */
export class TruthBoard {
  readonly #context: ServiceContext;
  readonly #demoted = new Map<string, TruthEffect>();
  readonly #timer: NodeJS.Timeout;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#timer = setInterval(() => this.#repeat(), REPEAT_MS);
    this.#timer.unref();
  }

  onChange(effect: TruthEffect): void {
    const { workerId, model, from, to, reason } = effect;
    const isDemotion = TRUTH_RANK[to] < TRUTH_RANK[from];
    if (to === 'events') this.#demoted.delete(workerId);
    else this.#demoted.set(workerId, effect);
    const fields = { workerId, model, from, to, reason };
    if (isDemotion) {
      this.#context.log.warn(fields, 'the cache of a worker is not believed any more');
      this.#publish('router.demoted', effect);
    } else {
      this.#context.log.info(fields, 'the cache of a worker is believed again');
      this.#publish('router.promoted', effect);
    }
  }

  onWorkerLeft(workerId: string): void {
    this.#demoted.delete(workerId);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #repeat(): void {
    for (const effect of this.#demoted.values()) this.#publish('router.demoted', effect);
  }

  #publish(kind: 'router.demoted' | 'router.promoted', effect: TruthEffect): void {
    const { workerId, model, from, to, reason } = effect;
    const data = { routerId: this.#context.id, workerId, model, from, to, reason };
    this.#context.publishEvent(kind, workerId, data);
  }
}
