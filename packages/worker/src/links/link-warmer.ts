import { messageOf, type Rng } from '@busbar/base';
import type { Peer } from './peer-watch.ts';
import { retryAfterMs } from './retry.ts';
import type { WarmUpLink } from './warm-up.ts';

/** The first connection of two engines takes half a minute on a busy machine. */
const WARM_UP_MS = 60_000;
/** Both sides are ready a moment after they are seen; many decode workers see a new prefill worker in the same moment. */
const FIRST_MS = 500;
const JITTER_MS = 500;

export interface LinkWarmerOptions {
  warmUp: WarmUpLink;
  rng: Rng;
  onProven: (id: string, tookMs: number) => void;
  onFailure: (id: string, reason: string) => void;
  nowMs: () => number;
}

/** Moves a little KV over each new link until that went well once; one link at a time, since connecting takes all of a small machine. */
export class LinkWarmer {
  readonly #options: LinkWarmerOptions;
  readonly #peers = new Map<string, Peer>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #due: { peer: Peer; failures: number }[] = [];
  #running: { peer: Peer; stop: AbortController } | undefined;

  constructor(options: LinkWarmerOptions) {
    this.#options = options;
  }

  add(peer: Peer): void {
    this.#peers.set(peer.id, peer);
    this.#later(peer, 0, FIRST_MS);
  }

  remove(id: string): void {
    this.#peers.delete(id);
    if (this.#running?.peer.id === id) this.#running.stop.abort();
  }

  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#peers.clear();
    this.#running?.stop.abort();
  }

  #later(peer: Peer, failures: number, afterMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#due.push({ peer, failures });
      if (this.#running === undefined) void this.#work();
    }, afterMs + this.#options.rng.int(JITTER_MS));
    timer.unref();
    this.#timers.add(timer);
  }

  async #work(): Promise<void> {
    for (let due = this.#due.shift(); due !== undefined; due = this.#due.shift()) {
      const { peer, failures } = due;
      if (!this.#isWanted(peer)) continue;
      const stop = new AbortController();
      this.#running = { peer, stop };
      await this.#warmUp(peer, failures, stop.signal);
      this.#running = undefined;
    }
  }

  async #warmUp(peer: Peer, failures: number, stop: AbortSignal): Promise<void> {
    const { warmUp, onProven, onFailure, nowMs } = this.#options;
    const beganMs = nowMs();
    try {
      await warmUp(peer, AbortSignal.any([stop, AbortSignal.timeout(WARM_UP_MS)]));
      if (this.#isWanted(peer)) onProven(peer.id, nowMs() - beganMs);
    } catch (error) {
      if (!this.#isWanted(peer)) return;
      onFailure(peer.id, messageOf(error));
      // What an engine began goes on meanwhile, so that the next try is often quick.
      this.#later(peer, failures + 1, retryAfterMs(failures + 1));
    }
  }

  /** Not gone meanwhile, nor another process under the same name. */
  #isWanted(peer: Peer): boolean {
    return this.#peers.get(peer.id) === peer;
  }
}
