import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, messageOf, type Rng } from '@busbar/base';
import type { LinkProbe, ProbeOptions } from '@busbar/engine';
import { retryAfterMs } from './retry.ts';

export type ProbeLink = (endpoint: string, options: ProbeOptions) => Promise<LinkProbe>;

/** Enough to be seen on any link, little enough for one of 10 Mbit/s. */
const FIRST_BYTES = 262_144;
const FIRST_MS = 3_000;
/** What the second, larger question may take: it is to get past the slow start of TCP, and not to fill a slow link. */
const SECOND_SHARE_MS = 150;
const SECOND_MS = 1_000;
const MAX_BYTES = 8_388_608;
/** Many decode workers hear of a new prefill worker in the same moment. */
const JITTER_MS = 500;
/** A link of which nothing was heard for so long is asked again. */
const IDLE_MS = 180_000;
const LOOK_EVERY_MS = 30_000;

export interface LinkProberOptions {
  probe: ProbeLink;
  rng: Rng;
  nowMs: () => number;
  /** When a transfer or a probe last said something of a link; now while a transfer runs. */
  lastNewsMs: (id: string) => number;
  onResult: (id: string, result: LinkProbe) => void;
  onFailure: (id: string, reason: string) => void;
}

interface Target {
  id: string;
  endpoint: string;
  dueMs: number;
  failures: number;
}

/** Measures links that nobody uses: each once at the start and again after minutes without news; one at a time. */
export class LinkProber {
  readonly #options: LinkProberOptions;
  readonly #targets = new Map<string, Target>();
  #timer: NodeJS.Timeout | undefined;
  #isProbing = false;
  #isStopped = false;

  constructor(options: LinkProberOptions) {
    this.#options = options;
  }

  add(id: string, endpoint: string): void {
    const dueMs = this.#options.nowMs() + this.#options.rng.int(JITTER_MS);
    this.#targets.set(id, { id, endpoint, dueMs, failures: 0 });
    this.#schedule();
  }

  remove(id: string): void {
    this.#targets.delete(id);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#targets.clear();
  }

  #schedule(): void {
    if (this.#isStopped || this.#isProbing) return;
    clearTimeout(this.#timer);
    const next = this.#next();
    if (next === undefined) return;
    const waitMs = Math.max(0, Math.min(next.dueMs - this.#options.nowMs(), LOOK_EVERY_MS));
    this.#timer = setTimeout(() => void this.#look(), waitMs);
    this.#timer.unref();
  }

  #next(): Target | undefined {
    let first: Target | undefined;
    for (const target of this.#targets.values())
      if (first === undefined || target.dueMs < first.dueMs) first = target;
    return first;
  }

  async #look(): Promise<void> {
    const target = this.#next();
    const nowMs = this.#options.nowMs();
    if (target !== undefined && target.dueMs <= nowMs) {
      const idleAtMs = this.#options.lastNewsMs(target.id) + IDLE_MS;
      // Transfers tell more than a probe, and a probe would take from them.
      if (idleAtMs > nowMs) target.dueMs = idleAtMs + this.#options.rng.int(JITTER_MS);
      else {
        this.#isProbing = true;
        await this.#probe(target);
        this.#isProbing = false;
      }
    }
    this.#schedule();
  }

  async #probe(target: Target): Promise<void> {
    const { nowMs, onResult, onFailure, rng } = this.#options;
    const isWanted = (): boolean =>
      !this.#isStopped && this.#targets.get(target.id)?.endpoint === target.endpoint;
    try {
      const result = await this.#measure(target.endpoint);
      target.failures = 0;
      target.dueMs = nowMs() + IDLE_MS + rng.int(JITTER_MS);
      if (isWanted()) onResult(target.id, result);
    } catch (error) {
      target.dueMs = nowMs() + retryAfterMs(++target.failures) + rng.int(JITTER_MS);
      // A server that has no room for a probe is there, and so is the link.
      const isBusy = error instanceof AppError && error.code === 'TRANSFER_BUSY';
      if (isWanted() && !isBusy) onFailure(target.id, messageOf(error));
    }
  }

  /** A small question, then one whose size the first answer gives. */
  async #measure(endpoint: string): Promise<LinkProbe> {
    const { probe } = this.#options;
    const first = await probe(endpoint, { bytes: FIRST_BYTES, timeoutMs: FIRST_MS });
    const bytes = Math.min(MAX_BYTES, Math.floor(first.bytesPerMs * SECOND_SHARE_MS));
    if (bytes <= FIRST_BYTES) return first;
    await sleep(1);
    const second = await probe(endpoint, { bytes, timeoutMs: SECOND_MS });
    return { ...second, latencyMs: Math.min(first.latencyMs, second.latencyMs) };
  }
}
