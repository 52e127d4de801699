import type { Clock } from '@busbar/base';
import { type Bus, BusError } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import { FrontendError, type FrontendErrorCode } from '../errors.ts';
import { type DoubtsHost, OutageDoubts } from './outage-doubts.ts';
import type { StreamOwner } from './stream-owner.ts';

const SWEEP_MS = 250;
const ASK_TIMEOUT_MS = 500;
/** A stream whose tokens may be lost has so long to show the next ones; longer while it may still be in prefill. */
const SUSPECT_MS = 3_000;
const SUSPECT_PREFILL_MS = 10_000;
/** Requests do not outlive an outage of the bus that is longer. */
const OUTAGE_MS = 8_000;

interface WatchedWorker {
  owners: Set<StreamOwner>;
  lastHeardMs: number;
  lastTokenMs: number;
  isAsked: boolean;
}

export interface WorkerWatchHost extends DoubtsHost {
  /** Asks the worker for a sign of life; `gone` when nobody listens under its name any more. */
  signOfLife(workerId: string, timeoutMs: number): Promise<'alive' | 'silent' | 'gone'>;
}

/**
 * Notices about half a second after the last token that a worker with our streams is gone: the bus says that nobody listens under its
 * name. A worker that is connected but answers nothing counts as gone after the time of a lease. Also bounds how long a stream waits after
 * an outage of the bus, when its worker does not say how far it is (`OutageDoubts`), and for a worker that answers but sends no tokens.
 * Heartbeats are not heard here: they would wake every frontend for every worker, also for those that it has nothing to do with.
 */
export class WorkerWatch {
  readonly #clock: Clock;
  readonly #host: WorkerWatchHost;
  readonly #workers = new Map<string, WatchedWorker>();
  readonly #doubts: OutageDoubts;
  readonly #stopStatus: () => void;
  readonly #timer: NodeJS.Timeout;
  #lastSweepMs: number;
  #outageSinceMs: number | undefined;

  constructor(options: { bus: Bus; clock: Clock; host: WorkerWatchHost }) {
    this.#clock = options.clock;
    this.#host = options.host;
    this.#doubts = new OutageDoubts(options.host);
    this.#lastSweepMs = options.clock.monotonicMs();
    this.#stopStatus = options.bus.onStatus((change) => {
      if (change === 'disconnected') this.#onDisconnected();
      if (change === 'reconnected') this.#onReconnected();
    });
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS);
    this.#timer.unref();
  }

  attach(workerId: string, owner: StreamOwner): void {
    const nowMs = this.#clock.monotonicMs();
    let worker = this.#workers.get(workerId);
    if (worker === undefined) {
      worker = {
        owners: new Set(),
        lastHeardMs: nowMs,
        lastTokenMs: nowMs,
        isAsked: false,
      };
      this.#workers.set(workerId, worker);
    }
    if (worker.owners.size === 0) worker.lastTokenMs = nowMs;
    worker.owners.add(owner);
  }

  detach(workerId: string, owner: StreamOwner): void {
    const worker = this.#workers.get(workerId);
    worker?.owners.delete(owner);
    if (worker?.owners.size === 0) this.#workers.delete(workerId);
  }

  /** Tokens came. */
  heard(workerId: string, nowMs: number): void {
    const worker = this.#workers.get(workerId);
    if (worker === undefined) return;
    worker.lastHeardMs = nowMs;
    worker.lastTokenMs = nowMs;
  }

  /** Streams of this worker may have lost tokens. */
  suspect(workerId: string, nowMs: number): void {
    for (const owner of this.#workers.get(workerId)?.owners ?? []) {
      if (owner.suspectSinceMs === 0) owner.suspectSinceMs = nowMs;
    }
  }

  /** The lease is gone: look at once. */
  leaseGone(workerId: string): void {
    const worker = this.#workers.get(workerId);
    if (worker !== undefined) void this.#ask(workerId, worker);
  }

  /** Another process took the worker's name: the streams of the one before are gone. */
  restarted(workerId: string): void {
    this.#loseAll(workerId, 'FRONTEND_WORKER_LOST', 'the worker started anew');
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#stopStatus();
    this.#doubts.cancel();
  }

  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    const isLagging = nowMs - this.#lastSweepMs > SWEEP_MS * 3;
    this.#lastSweepMs = nowMs;
    if (this.#outageSinceMs !== undefined) {
      if (nowMs - this.#outageSinceMs > OUTAGE_MS) this.#endAll();
      return;
    }
    // What this process has not read yet says nothing about the workers.
    if (isLagging) return;
    for (const [workerId, worker] of this.#workers) this.#check(workerId, worker, nowMs);
  }

  #check(workerId: string, worker: WatchedWorker, nowMs: number): void {
    const silentMs = nowMs - worker.lastHeardMs;
    if (silentMs > limit('leaseTtlMs')) {
      this.#loseAll(workerId, 'FRONTEND_WORKER_LOST', `silent for ${Math.round(silentMs)} ms`);
      return;
    }
    const tokenlessMs = nowMs - worker.lastTokenMs - limit('streamSilenceMs');
    if (tokenlessMs > 0 && tokenlessMs > firstTokenMs(worker)) {
      this.#loseAll(workerId, 'FRONTEND_WORKER_LOST', 'it answers but sends no tokens');
      return;
    }
    if (silentMs > limit('tokenSilenceMs')) void this.#ask(workerId, worker);
    for (const owner of worker.owners) {
      if (owner.suspectSinceMs === 0) continue;
      const limitMs = owner.position > 0 ? SUSPECT_MS : SUSPECT_PREFILL_MS;
      if (nowMs - owner.suspectSinceMs > limitMs) {
        owner.lose(lost('FRONTEND_TOKENS_LOST', workerId, 'messages were lost'));
      }
    }
  }

  async #ask(workerId: string, worker: WatchedWorker): Promise<void> {
    if (worker.isAsked) return;
    worker.isAsked = true;
    const sign = await this.#host.signOfLife(workerId, ASK_TIMEOUT_MS);
    worker.isAsked = false;
    if (this.#workers.get(workerId) !== worker) return;
    if (sign === 'alive') worker.lastHeardMs = this.#clock.monotonicMs();
    if (sign !== 'gone') return;
    this.#loseAll(workerId, 'FRONTEND_WORKER_LOST', 'nobody listens under its name');
  }

  #loseAll(workerId: string, code: FrontendErrorCode, reason: string): void {
    const worker = this.#workers.get(workerId);
    if (worker === undefined) return;
    const error = lost(code, workerId, reason);
    for (const owner of worker.owners) owner.lose(error);
  }

  #onDisconnected(): void {
    this.#outageSinceMs ??= this.#clock.monotonicMs();
    this.#doubts.cancel();
  }

  #onReconnected(): void {
    this.#outageSinceMs = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (const [workerId, worker] of this.#workers) {
      worker.lastHeardMs = nowMs;
      this.suspect(workerId, nowMs);
      void this.#doubts.ask(workerId, worker.owners);
    }
  }

  #endAll(): void {
    const error = new BusError('BUS_DISCONNECTED', 'the bus was away for too long');
    for (const worker of this.#workers.values()) {
      for (const owner of worker.owners) owner.fail(error);
    }
  }
}

/** How much longer than others a worker may be without tokens, because it fetches KV or computes a long prompt. */
function firstTokenMs({ owners }: WatchedWorker): number {
  let mostMs = 0;
  for (const { position, promptTokens, isFetching } of owners) {
    if (position > 0) continue;
    const prefillMs = promptTokens * limit('slowPrefillMsPerToken');
    mostMs = Math.max(mostMs, isFetching ? limit('kvFetchMs') : 0, prefillMs);
  }
  return mostMs;
}

function lost(code: FrontendErrorCode, workerId: string, reason: string): FrontendError {
  return new FrontendError(code, `worker ${workerId}: ${reason}`, { retryable: true });
}
