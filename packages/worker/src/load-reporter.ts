import type { EngineLoad } from '@busbar/engine';
import { encodeWorkerLoad, limit, type WorkerLoad } from '@busbar/protocol';

export interface LoadFacts {
  epoch: number;
  kvBlocks: number;
  isDraining: boolean;
  kvSequence: number;
  load: EngineLoad;
}

/**
 * The heartbeat of a worker: regularly, and at once when it takes no more requests. Routers know from their own bookings
 * what comes and goes in between.
 */
export class LoadReporter {
  readonly #read: () => LoadFacts;
  readonly #publish: (data: Uint8Array) => void;
  readonly #interval: NodeJS.Timeout;

  constructor(read: () => LoadFacts, publish: (data: Uint8Array) => void) {
    this.#read = read;
    this.#publish = publish;
    this.#interval = setInterval(() => this.send(), limit('loadIntervalMs'));
  }

  send(): void {
    this.#publish(encodeWorkerLoad(toWorkerLoad(this.#read())));
  }

  stop(): void {
    clearInterval(this.#interval);
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
    prefillStepTokens: load.prefillStepTokens,
    kvSequence,
    storedBlocksTotal: load.storedBlocksTotal,
    stagedBlocks: load.stagedBlocks,
  };
}
