import type { Rng } from '@busbar/base';
import type { Candidates, Placement } from './candidates.ts';
import { HeldBlocks } from './held-blocks.ts';
import { chooseCheapest } from './picker.ts';
import { createPredictiveProfile, type Profile } from './terms.ts';
import type { PolicyName } from './types.ts';
import type { ReuseStats } from './working-set.ts';

/** How a router chooses among the workers that passed the filters. No policy has side effects on workers or bookings. */
export interface Policy {
  /** Index of the chosen candidate. */
  choose(candidates: Candidates, placement: Placement, rng: Rng): number;
  /** The cost of one candidate by cause, for the record. */
  explain(candidates: Candidates, at: number, placement: Placement): Record<string, number>;
}

/** `active`: blocks of running requests by worker, kept only for policy `kv`. */
export function createPolicy(
  name: PolicyName,
  stats: ReuseStats,
  active: HeldBlocks | undefined,
): Policy {
  switch (name) {
    case 'predictive':
    case 'approximate':
      return new ProfilePolicy(createPredictiveProfile(stats), 0.02, 0.1);
    case 'kv':
      return new ProfilePolicy(createKvProfile(active ?? new HeldBlocks()), 0, 0);
    case 'least-loaded':
      return new ProfilePolicy(LOAD_PROFILE, 0, 0);
    case 'round-robin':
      return new RoundRobin();
    case 'random':
      return {
        choose: (candidates, _placement, rng) => rng.int(candidates.count),
        explain: nothing,
      };
    case 'power-of-two':
      return { choose: chooseLighterOfTwo, explain: requestCount };
  }
}

/** Sums weighted terms and takes the cheapest. */
class ProfilePolicy implements Policy {
  readonly #profile: Profile;
  readonly #tieRatio: number;
  readonly #tieMs: number;

  constructor(profile: Profile, tieRatio: number, tieMs: number) {
    this.#profile = profile;
    this.#tieRatio = tieRatio;
    this.#tieMs = tieMs;
  }

  choose(candidates: Candidates, placement: Placement, rng: Rng): number {
    const { cost, count } = candidates;
    cost.fill(0, 0, count);
    for (const [, weight, term] of this.#profile) {
      for (let at = 0; at < count; at++) {
        cost[at] = cost[at]! + weight * term(candidates, at, placement);
      }
    }
    return chooseCheapest(cost, count, this.#tieRatio, this.#tieMs, rng);
  }

  explain(candidates: Candidates, at: number, placement: Placement): Record<string, number> {
    const terms: Record<string, number> = {};
    for (const [name, weight, term] of this.#profile) {
      terms[name] = weight * term(candidates, at, placement);
    }
    return terms;
  }
}

class RoundRobin implements Policy {
  #last = new Map<string, string>();

  choose(candidates: Candidates): number {
    const { rows, count } = candidates;
    const { model } = rows[0]!.info;
    const last = this.#last.get(model) ?? '';
    let next = 0;
    while (next < count && rows[next]!.workerId <= last) next++;
    if (next === count) next = 0;
    this.#last.set(model, rows[next]!.workerId);
    return next;
  }

  explain(): Record<string, number> {
    return {};
  }
}

function chooseLighterOfTwo(candidates: Candidates, _placement: Placement, rng: Rng): number {
  const { rows, count } = candidates;
  if (count === 1) return 0;
  const first = rng.int(count);
  const second = (first + 1 + rng.int(count - 1)) % count;
  return rows[second]!.booked.requests < rows[first]!.booked.requests ? second : first;
}

function nothing(): Record<string, number> {
  return {};
}

function requestCount(candidates: Candidates, at: number): Record<string, number> {
  return { requests: candidates.rows[at]!.booked.requests };
}

/**
 * NVIDIA Dynamo's published cost with its default weights: blocks still to be prefilled on the worker with this request, minus
 * those it has cached, plus the distinct blocks of running requests with this one. Expressed in milliseconds at one rate for
 * all workers, which does not change the order.
 */
function createKvProfile(active: HeldBlocks): Profile {
  return [
    [
      'prefillBlocksMs',
      1,
      (candidates, at, placement) => {
        const { booked, info } = candidates.rows[at]!;
        const raw = (booked.prefillTokens + placement.promptTokens) / info.blockSize;
        return Math.max(0, raw - candidates.overlapBlocks[at]!) * commonBlockMs(candidates);
      },
    ],
    [
      'decodeBlocksMs',
      1,
      (candidates, at, placement) => {
        const { slot } = candidates.rows[at]!;
        const shared = active.depth(slot, placement.hashes, 0);
        return (active.blocksOf(slot) + placement.blocks - shared) * commonBlockMs(candidates);
      },
    ],
  ];
}

const LOAD_PROFILE: Profile = [
  ['requests', 1, (candidates, at) => candidates.rows[at]!.booked.requests],
];

function commonBlockMs(candidates: Candidates): number {
  const { info } = candidates.rows[0]!;
  return info.blockSize / info.prefillTokensPerMs;
}
