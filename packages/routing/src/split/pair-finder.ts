import type { Rng } from '@busbar/base';
import type { RouteRequest } from '@busbar/protocol';
import { Candidates, type Placement } from '../placement/candidates.ts';
import { collect } from '../placement/filter.ts';
import type { OverlapReader } from '../placement/overlap-reader.ts';
import { chooseCheapest } from '../placement/picker.ts';
import { TIE_RATIO } from '../placement/policy.ts';
import type { SplitCause } from '../types.ts';
import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerPool } from '../workers/worker-pool.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import { transferBytes } from './legs.ts';
import type { Pair, PairTable } from './pair-table.ts';
import { Pricing } from './pricing.ts';
import {
  DECODE_PROFILE,
  FIRST_TOKEN_TERMS,
  PREFILL_CHOICE_PROFILE,
  PREFILL_PROFILE,
  READY_TERMS,
} from './split-profiles.ts';

/** What one pair of workers would take for a request, in milliseconds. */
export interface Offer {
  readonly pair: Pair;
  /** Place in the set of prefill workers; undefined when the KV is there already and nothing is left to prefill. */
  readonly prefillAt: number | undefined;
  /** Place in the shortlist of decode workers. */
  readonly decodeAt: number;
  readonly bytes: number;
  /** Until prefill workers have room for it beside KV that waits to be fetched. */
  readonly stagedWaitMs: number;
  /** Until the prefill is done. */
  readonly readyMs: number;
  readonly transferMs: number;
  /** Until the decode worker has room, counted from the end of the prefill. */
  readonly seatMs: number;
  /** From the end of the prefill to the first token. */
  readonly fetchedMs: number;
  readonly totalMs: number;
}

export type NoOffer = Extract<SplitCause, 'no_pair' | 'prefill_unavailable'>;

export interface FinderParts {
  columns: WorkerColumns;
  bySlot: readonly (WorkerRow | undefined)[];
  overlap: OverlapReader;
  pairs: PairTable;
  loadSilenceMs: number;
}

/** Prices every pair of a few decode workers with all prefill workers: each worker's own part once, the transfer for each pair. */
export class PairFinder {
  /** Prefill workers of the last search. */
  readonly prefills: Candidates;
  readonly #parts: FinderParts;
  readonly #prefillPricing = new Pricing(PREFILL_PROFILE);
  readonly #choicePricing = new Pricing(PREFILL_CHOICE_PROFILE);
  readonly #decodePricing = new Pricing(DECODE_PROFILE);
  /** Where a slot is among the prefill workers; holds leftovers of earlier searches. */
  readonly #placeOfSlot: number[] = [];
  #offers: Offer[] = [];
  #costs = new Float64Array(16);

  constructor(parts: FinderParts) {
    this.#parts = parts;
    this.prefills = new Candidates(parts.columns, parts.bySlot);
  }

  /** Pairs that the last search compared. */
  get compared(): number {
    return this.#offers.length;
  }

  /**
   * The cheapest pair with one of `decodes`. Those that failed lately are asked only with `hasNoChoice`, after all others. Where the KV of
   * this prompt waits already, no other pair is asked: to prefill it again would cost the pool what is done.
   */
  find(
    pool: WorkerPool,
    decodes: Candidates,
    placement: Placement,
    request: RouteRequest,
    hasNoChoice: boolean,
    rng: Rng,
  ): Offer | NoOffer {
    const { overlap, loadSilenceMs } = this.#parts;
    this.#offers = [];
    if (!this.#hasPair(decodes)) return 'no_pair';
    this.#decodePricing.price(decodes, placement);
    if (request.kvAt !== undefined) this.#compareStaged(decodes, placement, request.kvAt);
    if (this.#offers.length > 0) return this.#cheapest(rng);
    const refusal = collect(pool, request, this.prefills, placement.nowMs, loadSilenceMs);
    if (refusal !== undefined) {
      return refusal === 'too-long' || refusal === 'no-adapter' ? 'no_pair' : 'prefill_unavailable';
    }
    overlap.measureMore(this.prefills, placement);
    this.#prefillPricing.price(this.prefills, placement);
    this.#choicePricing.price(this.prefills, placement);
    for (let at = 0; at < this.prefills.count; at++) {
      this.#placeOfSlot[this.prefills.slots[at]!] = at;
    }
    this.#compare(decodes, placement, false);
    if (this.#offers.length === 0 && hasNoChoice) this.#compare(decodes, placement, true);
    if (this.#offers.length === 0) return 'prefill_unavailable';
    return this.#cheapest(rng);
  }

  /** Every term of an offer of the last search. */
  termsOf(offer: Offer): Record<string, number> {
    return {
      ...(offer.prefillAt === undefined ? {} : this.#prefillPricing.termsOf(offer.prefillAt)),
      stagedWaitMs: offer.stagedWaitMs,
      transferMs: offer.transferMs,
      ...this.#decodePricing.termsOf(offer.decodeAt),
      decodeSeatMs: offer.seatMs,
    };
  }

  #hasPair(decodes: Candidates): boolean {
    for (let at = 0; at < decodes.count; at++) {
      if (this.#parts.pairs.of(decodes.slots[at]!).length > 0) return true;
    }
    return false;
  }

  #compareStaged(decodes: Candidates, placement: Placement, kvAt: string): void {
    for (let decodeAt = 0; decodeAt < decodes.count; decodeAt++) {
      for (const pair of this.#parts.pairs.of(decodes.slots[decodeAt]!)) {
        if (pair.prefill.workerId !== kvAt || !pair.link.isProven) continue;
        if (pair.link.suspicion.isOpen(placement.nowMs)) continue;
        this.#offers.push(this.#offer(pair, undefined, decodeAt, decodes, placement));
      }
    }
  }

  #compare(decodes: Candidates, placement: Placement, withSuspects: boolean): void {
    const { nowMs } = placement;
    for (let decodeAt = 0; decodeAt < decodes.count; decodeAt++) {
      for (const pair of this.#parts.pairs.of(decodes.slots[decodeAt]!)) {
        const prefillAt = this.#placeOf(pair.prefill);
        if (prefillAt === undefined || !pair.link.isProven) continue;
        const isSuspect = pair.prefill.suspicion.isOpen(nowMs) || pair.link.suspicion.isOpen(nowMs);
        if (isSuspect && !withSuspects) continue;
        this.#offers.push(this.#offer(pair, prefillAt, decodeAt, decodes, placement));
      }
    }
  }

  /** Undefined when the worker cannot prefill this request now. */
  #placeOf({ slot }: WorkerRow): number | undefined {
    const at = this.#placeOfSlot[slot];
    const isThere =
      at !== undefined && at < this.prefills.count && this.prefills.slots[at] === slot;
    return isThere ? at : undefined;
  }

  #offer(
    pair: Pair,
    prefillAt: number | undefined,
    decodeAt: number,
    decodes: Candidates,
    { promptTokens, nowMs }: Placement,
  ): Offer {
    const [prefill, decode] = [this.#prefillPricing, this.#decodePricing];
    const isStaged = prefillAt === undefined;
    const stagedWaitMs = isStaged ? 0 : this.#stagedWaitMs(pair, prefillAt, nowMs);
    const readyMs = isStaged ? 0 : stagedWaitMs + prefill.sumMs(prefillAt, 0, READY_TERMS);
    const bytes = transferBytes(pair.prefill, promptTokens, decodes.overlapBlocks[decodeAt]!);
    // Seats become free while the prompt is prefilled.
    const seatMs = Math.max(0, decode.sumMs(decodeAt, 0, 1) - readyMs);
    const transferMs = pair.link.transferMs(bytes, readyMs + seatMs, nowMs);
    const fetchedMs = seatMs + transferMs + decode.sumMs(decodeAt, 1, FIRST_TOKEN_TERMS);
    const prefillLaterMs = isStaged ? 0 : prefill.sumMs(prefillAt, READY_TERMS);
    const laterMs = prefillLaterMs + decode.sumMs(decodeAt, FIRST_TOKEN_TERMS);
    const totalMs = readyMs + fetchedMs + laterMs;
    const times = { stagedWaitMs, readyMs, transferMs, seatMs, fetchedMs, totalMs };
    return { pair, prefillAt, decodeAt, bytes, ...times };
  }

  /** KV that waits to be fetched fills the cache until it is; it leaves at the rate of the link. */
  #stagedWaitMs({ prefill, link }: Pair, prefillAt: number, nowMs: number): number {
    const { freeTokens, stagedTokens } = this.#parts.columns;
    const staged = stagedTokens[prefill.slot]!;
    if (staged === 0) return 0;
    const room = freeTokens[prefill.slot]! - staged;
    const lack = Math.min(staged, this.prefills.uncachedTokens[prefillAt]! - room);
    if (lack <= 0) return 0;
    return (lack * (prefill.info.transfer?.kvBytesPerToken ?? 0)) / link.bytesPerMs(nowMs);
  }

  #cheapest(rng: Rng): Offer {
    const count = this.#offers.length;
    if (this.#costs.length < count) this.#costs = new Float64Array(count * 2);
    for (let at = 0; at < count; at++) {
      const { totalMs, prefillAt } = this.#offers[at]!;
      const choiceMs = prefillAt === undefined ? 0 : this.#choicePricing.sumMs(prefillAt);
      this.#costs[at] = totalMs + choiceMs;
    }
    return this.#offers[chooseCheapest(this.#costs, count, TIE_RATIO, rng)]!;
  }
}
