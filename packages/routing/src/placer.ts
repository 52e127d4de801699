import type { Rng } from '@busbar/base';
import type { KvIndex } from '@busbar/kv-index';
import { expectedOutput } from './booking.ts';
import type { BookingLedger } from './booking-ledger.ts';
import { Candidates, type Placement } from './candidates.ts';
import { recordDecision } from './decision-record.ts';
import { collect, type Refusal } from './filter.ts';
import type { HeldBlocks } from './held-blocks.ts';
import type { Policy } from './policy.ts';
import type { SlotPool } from './slot-pool.ts';
import { ownPrefill, queueWait, seatWait, tierLoad } from './terms.ts';
import type { RequestEvent, RouterConfig, RouterEffect } from './types.ts';
import type { WorkerRow } from './worker-row.ts';

export interface PlacerParts {
  config: RouterConfig;
  rng: Rng;
  index: KvIndex;
  owners: SlotPool;
  predicted: HeldBlocks;
  ledger: BookingLedger;
  policy: Policy;
}

type Reply = Extract<RouterEffect, { kind: 'reply' }>;

/** Filter, cost, pick and book in one step, over scratch columns that are reused for every decision. */
export class Placer {
  readonly #parts: PlacerParts;
  readonly #candidates = new Candidates();
  /** A restarted router with the same id must not repeat its decision ids. */
  readonly #prefix: string;
  readonly #predicts: boolean;
  #decisions = 0;
  #overlaps = new Uint32Array(0);

  constructor(parts: PlacerParts) {
    this.#parts = parts;
    this.#prefix = `${parts.config.routerId}.${parts.rng.u32().toString(36)}.`;
    this.#predicts = parts.config.policy === 'predictive' || parts.config.policy === 'approximate';
  }

  /** The reply that places the request and is already booked, or why no worker can take it now. */
  place(rows: readonly WorkerRow[], event: RequestEvent, nowMs: number): Reply | Refusal {
    const { config, policy, rng } = this.#parts;
    const { request, hashes } = event;
    const candidates = this.#candidates;
    const refusal = collect(rows, request, candidates, nowMs, config.loadSilenceMs);
    if (refusal !== undefined) return refusal;
    const placement: Placement = {
      hashes,
      blocks: hashes.length >> 1,
      promptTokens: request.promptTokens,
      maxTokens: request.maxTokens,
      nowMs,
    };
    this.#measure(placement);
    const chosen = policy.choose(candidates, placement, rng);
    const decisionId = this.#prefix + (this.#decisions++).toString(36);
    const fields = { decisionId, model: request.model, policy: config.policy };
    const record = recordDecision(fields, chosen, candidates, placement, policy);
    const ttftMs = this.#predicts ? this.#ttftMs(chosen, placement) : undefined;
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

  /** Fills the cache columns of the candidates. */
  #measure(placement: Placement): void {
    const { index, owners, predicted } = this.#parts;
    const candidates = this.#candidates;
    if (this.#overlaps.length !== owners.highWater) {
      this.#overlaps = new Uint32Array(owners.highWater);
    }
    const overlaps = this.#overlaps;
    index.match(placement.hashes, overlaps);
    for (let at = 0; at < candidates.count; at++) {
      const row = candidates.rows[at]!;
      let seen = 0;
      for (const owner of row.deviceOwners) seen = Math.max(seen, overlaps[owner]!);
      const overlap =
        row.booked.oldestPrefill === undefined
          ? seen
          : predicted.depth(row.slot, placement.hashes, seen);
      let tiered = overlap;
      for (const owner of row.lowerOwners) tiered = Math.max(tiered, overlaps[owner]!);
      candidates.seenBlocks[at] = seen;
      candidates.overlapBlocks[at] = overlap;
      candidates.tieredBlocks[at] = tiered;
      // An engine computes at least the last token, however much is cached.
      candidates.uncachedTokens[at] = Math.max(
        1,
        placement.promptTokens - tiered * row.info.blockSize,
      );
    }
  }

  #ttftMs(chosen: number, placement: Placement): number {
    return (
      queueWait(this.#candidates, chosen, placement) +
      seatWait(this.#candidates, chosen) +
      ownPrefill(this.#candidates, chosen) +
      tierLoad(this.#candidates, chosen) +
      this.#candidates.rows[chosen]!.decodeStepMs.value
    );
  }

  #book(decisionId: string, event: RequestEvent, chosen: number, placement: Placement): void {
    const { config, ledger } = this.#parts;
    const candidates = this.#candidates;
    const row = candidates.rows[chosen]!;
    const seenBlocks = candidates.seenBlocks[chosen]!;
    ledger.add({
      decisionId,
      routerId: config.routerId,
      frontendId: event.request.frontendId,
      row,
      hashes: event.hashes,
      promptTokens: placement.promptTokens,
      cachedTokens: placement.promptTokens - candidates.uncachedTokens[chosen]!,
      seenTokens: Math.min(placement.promptTokens - 1, seenBlocks * row.info.blockSize),
      outputTokens: expectedOutput(placement.maxTokens),
      predictedFrom: seenBlocks,
      bookedMs: placement.nowMs,
    });
    row.workingSet.use(event.hashes, placement.nowMs);
  }
}
