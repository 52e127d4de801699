import type { Rng } from '@busbar/base';
import type { RouteRequest } from '@busbar/protocol';
import { Candidates, type Placement } from '../placement/candidates.ts';
import { cheapest } from '../placement/decision-record.ts';
import type { Refusal } from '../placement/filter.ts';
import { TIE_RATIO } from '../placement/policy.ts';
import type { Disaggregation, SplitCause, SplitRecord } from '../types.ts';
import type { WorkerTable } from '../workers/worker-table.ts';
import { type FinderParts, type Offer, PairFinder } from './pair-finder.ts';
import { Pricing } from './pricing.ts';
import { LOCAL_PROFILE } from './split-profiles.ts';
import { compareInWords } from './split-words.ts';

/** Decode workers that are considered for a split: the cheapest ones for the whole request are so for its decode leg too. */
const SHORTLIST = 4;

export interface SplitterParts extends Omit<FinderParts, 'bySlot'> {
  config: Disaggregation;
  table: WorkerTable;
  rng: Rng;
}

/** Where a request goes once a split was in question. */
export interface SplitChoice {
  /** The candidate that serves the whole request, or decodes. */
  at: number;
  record: SplitRecord;
  offer: Offer | undefined;
}

export type SplitRefusal = Extract<Refusal, 'prefill-unavailable' | 'no-pair' | 'no-prefill'>;

const REFUSALS: Readonly<Partial<Record<SplitCause, SplitRefusal>>> = {
  no_prefill: 'no-prefill',
  no_pair: 'no-pair',
  prefill_unavailable: 'prefill-unavailable',
};

/** Decides for each request whether another worker than the one that decodes computes its prompt. */
export class Splitter {
  readonly #parts: SplitterParts;
  readonly #finder: PairFinder;
  readonly #shortlist: Candidates;
  readonly #local = new Pricing(LOCAL_PROFILE);
  #listed: number[] = [];

  constructor(parts: SplitterParts) {
    this.#parts = parts;
    const { bySlot } = parts.table;
    this.#finder = new PairFinder({ ...parts, bySlot });
    this.#shortlist = new Candidates(parts.columns, bySlot);
  }

  /** Prefill workers of the last choice; `Offer.prefillAt` is a place among them. */
  get prefills(): Candidates {
    return this.#finder.prefills;
  }

  /**
   * Undefined when there is nothing to decide: `chosen` serves the whole request. `isPriced` tells that the costs of the candidates
   * mean something; otherwise only `chosen` is considered.
   */
  decide(
    candidates: Candidates,
    chosen: number,
    placement: Placement,
    request: RouteRequest,
    isPriced: boolean,
  ): SplitChoice | SplitRefusal | undefined {
    const { config, table, rng } = this.#parts;
    const { mode } = config;
    if (mode === 'never' || request.isWhole === true || request.workerId !== undefined) {
      return undefined;
    }
    const pool = table.prefillPool(request.model);
    if (pool === undefined && mode === 'auto') return undefined;
    this.#list(candidates, chosen, isPriced, request.kvAt);
    this.#local.price(this.#shortlist, placement);
    const local = isPriced ? this.#bestLocal() : 0;
    const isShort =
      mode === 'threshold' && this.#shortlist.uncachedTokens[local]! <= config.thresholdTokens;
    if (isShort) return this.#whole(local, 'below_threshold', placement);
    const mustSplit = mode !== 'auto';
    const hasNoChoice = mustSplit && config.isStrict;
    const offer =
      pool === undefined
        ? 'no_prefill'
        : this.#finder.find(pool, this.#shortlist, placement, request, hasNoChoice, rng);
    if (typeof offer === 'string') {
      return (hasNoChoice ? REFUSALS[offer] : undefined) ?? this.#whole(local, offer, placement);
    }
    const localMs = this.#local.sumMs(local);
    if (mode === 'always') return this.#split(local, offer, 'always', placement);
    if (mode === 'threshold') return this.#split(local, offer, 'above_threshold', placement);
    // Within the accuracy of the prediction nothing is moved for nothing.
    return offer.totalMs < localMs * (1 - TIE_RATIO)
      ? this.#split(local, offer, 'pays', placement)
      : this.#whole(local, 'does_not_pay', placement, offer);
  }

  #list(candidates: Candidates, chosen: number, isPriced: boolean, kvAt: string | undefined): void {
    const { pairs } = this.#parts;
    this.#listed = isPriced ? cheapest(candidates, chosen, SHORTLIST) : [chosen];
    const canPair = (at: number): boolean =>
      pairs
        .of(candidates.slots[at]!)
        .some(({ prefill }) => kvAt === undefined || prefill.workerId === kvAt);
    if (pairs.size > 0 && !this.#listed.some(canPair)) {
      const { cost, count } = candidates;
      const able = Array.from({ length: count }, (_, at) => at).filter(canPair);
      this.#listed.push(...able.toSorted((a, b) => cost[a]! - cost[b]!).slice(0, SHORTLIST));
    }
    this.#shortlist.select(candidates, this.#listed);
  }

  /** The policy's choice, unless another worker is better once the delay of running decodes counts. */
  #bestLocal(): number {
    let best = 0;
    for (let at = 1; at < this.#shortlist.count; at++) {
      if (this.#local.sumMs(at) < this.#local.sumMs(best)) best = at;
    }
    const isTie = this.#local.sumMs(0) * (1 - TIE_RATIO) <= this.#local.sumMs(best);
    return isTie ? 0 : best;
  }

  #whole(local: number, cause: SplitCause, placement: Placement, offer?: Offer): SplitChoice {
    const record = this.#record(local, cause, false, placement, offer);
    return { at: this.#listed[local]!, record, offer: undefined };
  }

  #split(local: number, offer: Offer, cause: SplitCause, placement: Placement): SplitChoice {
    const record = this.#record(local, cause, true, placement, offer);
    return { at: this.#listed[offer.decodeAt]!, record, offer };
  }

  #record(
    local: number,
    cause: SplitCause,
    isSplit: boolean,
    placement: Placement,
    offer: Offer | undefined,
  ): SplitRecord {
    const { mode } = this.#parts.config;
    const { workerId } = this.#shortlist.row(local);
    const terms = this.#local.termsOf(local);
    const record: SplitRecord = {
      mode,
      isSplit,
      cause,
      reason: '',
      local: { workerId, terms, totalMs: this.#local.sumMs(local) },
      comparedPairs: offer === undefined ? 0 : this.#finder.compared,
    };
    if (offer === undefined) record.reason = this.#why(cause, local, placement.nowMs);
    else {
      record.pair = this.#pairRecord(offer, placement);
      record.reason = compareInWords({
        ...record.pair,
        prefillMs: offer.prefillAt === undefined ? undefined : offer.readyMs,
        transferMs: offer.transferMs,
        localWorkerId: workerId,
        localTotalMs: record.local.totalMs,
        localPrefillMs: (terms['ownPrefillMs'] ?? 0) + (terms['baseStepMs'] ?? 0),
        interferenceMs: terms['prefillInterferenceMs'] ?? 0,
      });
    }
    return record;
  }

  #pairRecord(offer: Offer, { promptTokens, nowMs }: Placement): NonNullable<SplitRecord['pair']> {
    const { pair, bytes, totalMs, prefillAt, decodeAt } = offer;
    const { link } = pair;
    const prefillUncached = prefillAt === undefined ? 0 : this.prefills.uncachedTokens[prefillAt]!;
    return {
      prefillWorkerId: pair.prefill.workerId,
      decodeWorkerId: pair.decode.workerId,
      prefillCachedTokens: promptTokens - prefillUncached,
      decodeCachedTokens: promptTokens - this.#shortlist.uncachedTokens[decodeAt]!,
      bytes,
      bytesAhead: link.bytesAhead,
      bytesPerMs: link.bytesPerMs(nowMs),
      latencyMs: link.latencyMs,
      source: link.source,
      terms: this.#finder.termsOf(offer),
      totalMs,
    };
  }

  #why(cause: SplitCause, local: number, nowMs: number): string {
    const { config, pairs } = this.#parts;
    const row = this.#shortlist.row(local);
    if (cause === 'no_prefill') return 'no prefill worker serves this model';
    if (cause === 'no_pair') {
      const refusal = pairs.refusalOf(row.info.model) ?? 'none can take such a prompt';
      return `no prefill worker makes a pair with a decode worker: ${refusal}`;
    }
    if (cause === 'prefill_unavailable') {
      const links = this.#listed.flatMap((_, at) =>
        pairs.of(this.#shortlist.row(at).slot).map(({ link }) => link),
      );
      if (!links.some(({ isProven }) => isProven)) {
        return 'no KV came over a link yet: the engines connect first';
      }
      const failed = links.find(({ suspicion }) => suspicion.isOpen(nowMs))?.record?.lastFailure;
      const last = failed === undefined ? '' : `; a transfer failed just now: ${failed}`;
      return `no prefill worker can take part in it now${last}`;
    }
    const uncached = this.#shortlist.uncachedTokens[local]!;
    return `${uncached} uncached tokens at ${row.workerId} are not above ${config.thresholdTokens}`;
  }
}
