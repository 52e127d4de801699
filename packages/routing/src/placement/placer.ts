import type { Rng } from '@busbar/base';
import type { KvIndex } from '@busbar/kv-index';
import type { RouteReply } from '@busbar/protocol';
import { expectedOutput } from '../bookings/booking.ts';
import type { BookingLedger } from '../bookings/booking-ledger.ts';
import type { HeldBlocks } from '../bookings/held-blocks.ts';
import { prefillLegId } from '../split/legs.ts';
import type { Flight } from '../split/link.ts';
import type { Offer } from '../split/pair-finder.ts';
import type { PairTable } from '../split/pair-table.ts';
import { Splitter } from '../split/splitter.ts';
import type { DecisionRecord, RequestEvent, RouterConfig, RouterEffect } from '../types.ts';
import type { SlotPool } from '../workers/slot-pool.ts';
import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerPool } from '../workers/worker-pool.ts';
import type { WorkerTable } from '../workers/worker-table.ts';
import { Candidates, type Placement } from './candidates.ts';
import { DecisionRecorder } from './decision-record.ts';
import { collect, type Refusal } from './filter.ts';
import { OverlapReader } from './overlap-reader.ts';
import type { Policy } from './policy.ts';
import { LATER_TERMS } from './profiles.ts';
import { baseStepMs } from './terms.ts';

export interface PlacerParts {
  config: RouterConfig;
  rng: Rng;
  index: KvIndex;
  owners: SlotPool;
  columns: WorkerColumns;
  table: WorkerTable;
  pairs: PairTable;
  predicted: HeldBlocks;
  ledger: BookingLedger;
  policy: Policy;
}

type Reply = Extract<RouterEffect, { kind: 'reply' }>;
type Placed = Extract<RouteReply, { kind: 'place' }>;

/** Filter, cost, pick and book in one step, over scratch columns that are reused for every decision. */
export class Placer {
  readonly #parts: PlacerParts;
  readonly #candidates: Candidates;
  readonly #recorder: DecisionRecorder;
  readonly #overlap: OverlapReader;
  readonly #splitter: Splitter;
  /** A restarted router with the same id must not repeat its decision ids. */
  readonly #prefix: string;
  readonly #predicts: boolean;
  #decisions = 0;

  constructor(parts: PlacerParts) {
    this.#parts = parts;
    const { config, columns, table } = parts;
    this.#candidates = new Candidates(columns, table.bySlot);
    this.#overlap = new OverlapReader(parts.index, parts.owners, parts.predicted);
    this.#recorder = new DecisionRecorder(
      parts.policy.profile,
      new Candidates(columns, table.bySlot),
    );
    this.#splitter = new Splitter({
      ...parts,
      config: config.disaggregation,
      overlap: this.#overlap,
      loadSilenceMs: config.loadSilenceMs,
    });
    this.#prefix = `${config.routerId}.${parts.rng.u32().toString(36)}.`;
    this.#predicts = config.policy === 'predictive' || config.policy === 'approximate';
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
    const first = policy.choose(candidates, placement, rng);
    const isPriced = policy.profile.length > 0;
    const split = this.#splitter.decide(candidates, first, placement, request, isPriced);
    if (typeof split === 'string') return split;
    const chosen = split?.at ?? first;
    const decisionId = this.#prefix + (this.#decisions++).toString(36);
    const fields = { decisionId, model: request.model, policy: config.policy };
    const record = this.#recorder.record(fields, chosen, candidates, placement);
    if (split !== undefined) record.split = split.record;
    const reply: Placed = {
      kind: 'place',
      decisionId,
      routerId: config.routerId,
      workerId: record.chosen,
      expectedCachedTokens: request.promptTokens - candidates.uncachedTokens[chosen]!,
    };
    const offer = split?.offer;
    if (offer !== undefined) this.#bookLegs(decisionId, event, chosen, placement, offer, reply);
    else {
      if (this.#predicts) reply.predictedTtftMs = this.#ttftMs(record, chosen);
      this.#book(decisionId, event, candidates, chosen, placement);
    }
    return { kind: 'reply', key: event.key, record, reply };
  }

  /** What will pass before the first token: what the terms predict, without what others pay for later. */
  #ttftMs(record: DecisionRecord, chosen: number): number {
    const { terms, totalMs } = record.candidates[0]!;
    const { workers, slots, uncachedTokens } = this.#candidates;
    let laterMs = 0;
    for (const name of LATER_TERMS) laterMs += terms[name] ?? 0;
    return totalMs - laterMs + baseStepMs(workers, slots[chosen]!, uncachedTokens[chosen]!);
  }

  #book(
    decisionId: string,
    event: RequestEvent,
    candidates: Candidates,
    at: number,
    { promptTokens, maxTokens, nowMs }: Placement,
    flight?: Flight,
  ): void {
    const { config, ledger } = this.#parts;
    const row = candidates.row(at);
    const seenBlocks = candidates.seenBlocks[at]!;
    const residentTokens = promptTokens - candidates.uncachedTokens[at]!;
    ledger.add({
      decisionId,
      routerId: config.routerId,
      frontendId: event.request.frontendId,
      ask: event.request.ask,
      row,
      hashes: event.hashes,
      promptTokens,
      cachedTokens: flight === undefined ? residentTokens : promptTokens - 1,
      residentTokens,
      isFetched: flight !== undefined,
      flight,
      seenTokens: Math.min(promptTokens - 1, seenBlocks * row.info.blockSize),
      outputTokens: expectedOutput(maxTokens),
      predictedFrom: seenBlocks,
      bookedMs: nowMs,
    });
    row.use(event.hashes, nowMs);
  }

  /** Books both legs, or the one that is left, and the transfer between them, and says so in the reply. */
  #bookLegs(
    decisionId: string,
    event: RequestEvent,
    chosen: number,
    placement: Placement,
    offer: Offer,
    reply: Placed,
  ): void {
    const { pair, bytes, prefillAt, readyMs, transferMs, fetchedMs } = offer;
    const { prefills } = this.#splitter;
    const flight = pair.link.book(bytes, fetchedMs);
    this.#book(decisionId, event, this.#candidates, chosen, placement, flight);
    reply.predictedTtftMs = readyMs + fetchedMs;
    if (prefillAt === undefined) {
      flight.readyMs = placement.nowMs;
      reply.kvAt = pair.prefill.workerId;
      return;
    }
    const legId = prefillLegId(decisionId);
    this.#book(legId, event, prefills, prefillAt, { ...placement, maxTokens: 1 });
    reply.prefill = {
      decisionId: legId,
      workerId: pair.prefill.workerId,
      expectedCachedTokens: placement.promptTokens - prefills.uncachedTokens[prefillAt]!,
      predictedPrefillMs: readyMs,
      predictedTransferMs: transferMs,
      onFailure: this.#parts.config.disaggregation.isStrict ? 'fail' : 'prefill-locally',
    };
  }
}
