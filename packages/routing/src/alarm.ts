import type { RouterEffect } from './types.ts';

/** The one time at which the shell is asked to call `onTick`; asks again only for an earlier one. */
export class Alarm {
  #atMs = Number.POSITIVE_INFINITY;

  ask(atMs: number, effects: RouterEffect[]): void {
    if (atMs >= this.#atMs) return;
    this.#atMs = atMs;
    effects.push({ kind: 'wake', atMs });
  }

  /** It rang. */
  reset(): void {
    this.#atMs = Number.POSITIVE_INFINITY;
  }
}
