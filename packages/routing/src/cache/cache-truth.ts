import type { WorkerLoad } from '@busbar/protocol';
import type { CacheTruth } from '../types.ts';

/** Heartbeats without the event that is due before a worker is demoted. */
const GRACE_BEATS = 5;
/** Comparisons of expected with reported cached tokens before a verdict. */
const DIVERGENCE_SAMPLES = 16;
const DIVERGENCE_WEIGHT = 1 / 12;
/** Mean share of the expected cached tokens that were not there, above which the source is not believed. */
const DIVERGENCE_LIMIT = 0.5;

/**
 * What a router may believe of one worker's cache, on evidence: KV events that should have come and did not, and prompts that
 * engines report as less cached than expected. It only judges; the core acts on the verdicts.
 */
export class TruthLedger {
  state: CacheTruth;
  reason: string;
  /** KV events of this life of the worker were seen. */
  isConfirmed = false;
  /** A demotion that later events do not undo. */
  isFinal = false;
  expectedTokensTotal = 0;
  reportedTokensTotal = 0;
  /** Earliest time at which events may be believed again. */
  retryAtMs = 0;
  #missingSinceMs = -1;
  #missingWhy = '';
  #lastEventMs = -1;
  /** Stored blocks at the last heartbeat that had an event before it. */
  #storedAtEvent = -1;
  #sawEvent = false;
  /** Blocks that events told of and heartbeats did not count yet: some engines count those of a request at its end. */
  #aheadBlocks = 0;
  /** Heartbeats since the event that is missing was due. */
  #beats = 0;
  #samples = 0;
  #divergence = 0;

  constructor(state: CacheTruth, reason: string) {
    this.state = state;
    this.reason = reason;
  }

  /** When the worker is demoted unless an event comes; undefined when none is due. */
  graceEndsMs(graceMs: number): number | undefined {
    return this.#missingSinceMs < 0 ? undefined : this.#missingSinceMs + graceMs;
  }

  /** An event came; `storedBlocks` are new by it. */
  onEvent(storedBlocks: number, nowMs: number): void {
    this.isConfirmed = true;
    this.#aheadBlocks += storedBlocks;
    this.#lastEventMs = nowMs;
    this.#missingSinceMs = -1;
    this.#sawEvent = true;
  }

  /** The engine counts the blocks it stored; growth that no event told of, then or before, is evidence. */
  onLoad(load: WorkerLoad, nowMs: number): void {
    this.#beats++;
    const total = load.storedBlocksTotal;
    const isNew = this.#storedAtEvent < 0 || total < this.#storedAtEvent;
    const grown = isNew ? 0 : total - this.#storedAtEvent;
    const wasTold = this.#sawEvent || this.#aheadBlocks > 0;
    // What is told and not counted belongs to requests that run.
    this.#aheadBlocks = Math.min(Math.max(0, this.#aheadBlocks - grown), load.activeBlocks);
    if (isNew || wasTold) {
      this.#storedAtEvent = total;
      this.#sawEvent = false;
    } else if (grown > 0) this.#miss(`its engine stored ${grown} blocks`, nowMs);
  }

  /** A prefill that began at `bookedMs` ended and must have stored `blocks` blocks. */
  onPrefill(blocks: number, bookedMs: number, nowMs: number): void {
    if (blocks > 0 && this.#lastEventMs < bookedMs) {
      this.#miss(`a prefill ended that must have stored ${blocks} blocks`, nowMs);
    }
  }

  /** Compares what was expected of the cache with what the engine reports. Finding more than expected is no fault. */
  onReported(expectedTokens: number, reportedTokens: number): void {
    this.expectedTokensTotal += expectedTokens;
    this.reportedTokensTotal += reportedTokens;
    if (expectedTokens <= 0) return;
    const missing = Math.max(0, expectedTokens - reportedTokens) / expectedTokens;
    this.#samples++;
    const weight = Math.max(DIVERGENCE_WEIGHT, 1 / this.#samples);
    this.#divergence += weight * (missing - this.#divergence);
  }

  /**
   * Why events must not be believed any longer, undefined when all is well. Time alone proves nothing: a router or a worker
   * that stood still finds the clock far ahead and the events still to be read, so heartbeats must have passed as well.
   */
  missingEvents(nowMs: number, graceMs: number): string | undefined {
    const endsMs = this.graceEndsMs(graceMs);
    if (endsMs === undefined || nowMs < endsMs || this.#beats < GRACE_BEATS) return undefined;
    return `no KV event within ${graceMs} ms although ${this.#missingWhy}`;
  }

  divergence(): string | undefined {
    if (this.#samples < DIVERGENCE_SAMPLES || this.#divergence < DIVERGENCE_LIMIT) return undefined;
    const percent = Math.round(this.#divergence * 100);
    return `${percent} % of the tokens expected in its cache were not there, over ${this.#samples} requests`;
  }

  moveTo(state: CacheTruth, reason: string, retryAtMs: number): void {
    this.state = state;
    this.reason = reason;
    this.retryAtMs = retryAtMs;
    this.#missingSinceMs = -1;
    this.#samples = 0;
    this.#divergence = 0;
  }

  #miss(why: string, nowMs: number): void {
    if (this.#missingSinceMs >= 0) return;
    this.#missingSinceMs = nowMs;
    this.#missingWhy = why;
    this.#beats = 0;
  }
}
