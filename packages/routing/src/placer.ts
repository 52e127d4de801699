import type { Rng } from '@busbar/base';
import type { KvIndex } from '@busbar/kv-index';
import { expectedOutput } from './booking.ts';
import type { BookingLedger } from './booking-ledger.ts';
import { Candidates, type Placement } from './candidates.ts';
import { DecisionRecorder } from './decision-record.ts';
import { collect, type Refusal } from './filter.ts';
import type { HeldBlocks } from './held-blocks.ts';
import { OverlapReader } from './overlap-reader.ts';
import type { Policy } from './policy.ts';
import { LATER_TERMS } from './profiles.ts';
import type { SlotPool } from './slot-pool.ts';
import type { DecisionRecord, RequestEvent, RouterConfig, RouterEffect } from './types.ts';
import type { WorkerColumns } from './worker-columns.ts';
import type { WorkerPool } from './worker-pool.ts';
import type { WorkerRow } from './worker-row.ts';

export interface PlacerParts {
  config: RouterConfig;
  rng: Rng;
  index: KvIndex;
  owners: SlotPool;
  columns: WorkerColumns;
  bySlot: readonly (WorkerRow | undefined)[];
  predicted: HeldBlocks;
  ledger: BookingLedger;
  policy: Policy;
}

type Reply = Extract<RouterEffect, { kind: 'reply' }>;

/** Filter, cost, pick and book in one step, over scratch columns that are reused for every decision. */
export class Placer {
  readonly #parts: PlacerParts;
  readonly #candidates: Candidates;
  readonly #recorder: DecisionRecorder;
  readonly #overlap: OverlapReader;
  /** A restarted router with the same id must not repeat its decision ids. */
  readonly #prefix: string;
  readonly #predicts: boolean;
  #decisions = 0;

  constructor(parts: PlacerParts) {
    this.#parts = parts;
    this.#candidates = new Candidates(parts.columns, parts.bySlot);
    this.#overlap = new OverlapReader(parts.index, parts.owners, parts.predicted);
    this.#recorder = new DecisionRecorder(
      parts.policy.profile,
      new Candidates(parts.columns, parts.bySlot),
    );
    this.#prefix = `${parts.config.routerId}.${parts.rng.u32().toString(36)}.`;
    this.#predicts = parts.config.policy === 'predictive' || parts.config.policy === 'approximate';
  }

  /** The reply that places the request and is already booked, or why no worker can take it now. */
  place(pool: WorkerPool, event: RequestEvent, nowMs: number): Reply | Refusal {
    const { config, policy, rng } = this.#parts;
    const { request, hashes } = event;
    const candidates = this.#candidates;
    const refusal = collect(pool, request, candidates, nowMs, config.loadSilenceMs);
    if (refusal !== undefined) return refusal;
    const placement: Placement = {
      hashes,
      blocks: hashes.length >> 1,
      promptTokens: request.promptTokens,
      maxTokens: request.maxTokens,
      nowMs,
    };
    this.#overlap.measure(candidates, placement);
    const chosen = policy.choose(candidates, placement, rng);
    const decisionId = this.#prefix + (this.#decisions++).toString(36);
    const fields = { decisionId, model: request.model, policy: config.policy };
    const record = this.#recorder.record(fields, chosen, candidates, placement);
    const ttftMs = this.#predicts ? this.#ttftMs(record, chosen) : undefined;
    const cachedTokens = request.promptTokens - candidates.uncachedTokens[chosen]!;
    this.#book(decisionId, event, chosen, placement);
    return {
      kind: 'reply',
      key: event.key,
      record,
      reply: {
        kind: 'place',
        decisionId,
        routerId: config.routerId,
        workerId: record.chosen,
        expectedCachedTokens: cachedTokens,
        ...(ttftMs === undefined ? undefined : { predictedTtftMs: ttftMs }),
      },
    };
  }

  /** What will pass before the first token: what the terms predict, without what others pay for later. */
  #ttftMs(record: DecisionRecord, chosen: number): number {
    const { terms, totalMs } = record.candidates[0]!;
    const { workers, slots } = this.#candidates;
    let laterMs = 0;
    for (const name of LATER_TERMS) laterMs += terms[name] ?? 0;
    return totalMs - laterMs + workers.decodeStepMs[slots[chosen]!]!;
  }

  #book(decisionId: string, event: RequestEvent, chosen: number, placement: Placement): void {
    const { config, ledger } = this.#parts;
    const candidates = this.#candidates;
    const row = candidates.row(chosen);
    const seenBlocks = candidates.seenBlocks[chosen]!;
    const cachedTokens = placement.promptTokens - candidates.uncachedTokens[chosen]!;
    ledger.add({
      decisionId,
      routerId: config.routerId,
      frontendId: event.request.frontendId,
      row,
      hashes: event.hashes,
      promptTokens: placement.promptTokens,
      cachedTokens,
      residentTokens: cachedTokens,
      isFetched: false,
      flight: undefined,
      seenTokens: Math.min(placement.promptTokens - 1, seenBlocks * row.info.blockSize),
      outputTokens: expectedOutput(placement.maxTokens),
      predictedFrom: seenBlocks,
      bookedMs: placement.nowMs,
    });
    row.use(event.hashes, placement.nowMs);
  }
}
