import type { Clock } from '@busbar/base';
import type { EngineLoad } from '@busbar/engine';
import { encodeWorkerLoad, limit, type WorkerLoad } from '@busbar/protocol';

/** Least time between two heartbeats when requests come and go quickly. */
const MIN_GAP_MS = 25;

export interface LoadFacts {
  epoch: number;
  kvBlocks: number;
  isDraining: boolean;
  kvSequence: number;
  load: EngineLoad;
}

/** The heartbeat of a worker: regularly, and soon after its number of requests changed. */
export class LoadReporter {
  readonly #clock: Clock;
  readonly #read: () => LoadFacts;
  readonly #publish: (data: Uint8Array) => void;
  readonly #interval: NodeJS.Timeout;
  #soon: NodeJS.Timeout | undefined;
  #sentAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, read: () => LoadFacts, publish: (data: Uint8Array) => void) {
    this.#clock = clock;
    this.#read = read;
    this.#publish = publish;
    this.#interval = setInterval(() => this.send(), limit('loadIntervalMs'));
  }

  send(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#sentAtMs = this.#clock.monotonicMs();
    this.#publish(encodeWorkerLoad(toWorkerLoad(this.#read())));
  }

  /** Something changed that routers should know before the next regular heartbeat. */
  touch(): void {
    if (this.#soon !== undefined) return;
    const waitMs = this.#sentAtMs + MIN_GAP_MS - this.#clock.monotonicMs();
    this.#soon = setTimeout(() => this.send(), Math.max(1, waitMs));
  }

  stop(): void {
    clearInterval(this.#interval);
    clearTimeout(this.#soon);
  }
}

function toWorkerLoad({ epoch, kvBlocks, isDraining, kvSequence, load }: LoadFacts): WorkerLoad {
  return {
    epoch,
    state: isDraining ? 'draining' : 'ready',
    running: load.running,
    waiting: load.waiting,
    waitingPrefillTokens: load.waitingPrefillTokens,
    freeBlocks: load.freeBlocks,
    activeBlocks: load.activeBlocks,
    kvBlocks,
    decodeStepMs: load.decodeStepMs,
    prefillTokensPerMs: load.prefillTokensPerMs,
    kvSequence,
    storedBlocksTotal: load.storedBlocksTotal,
  };
}
