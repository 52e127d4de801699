import type { Rng } from '@busbar/base';
import type { Candidates, Placement } from './candidates.ts';
import { HeldBlocks } from './held-blocks.ts';
import { chooseCheapest } from './picker.ts';
import { createKvProfile, LOAD_PROFILE, PREDICTIVE_PROFILE } from './profiles.ts';
import type { Profile } from './terms.ts';
import type { PolicyName } from './types.ts';

/** Predicted costs nearer to each other than this are equal: learned rates are not that exact. */
const TIE_RATIO = 0.02;
const TIE_MS = 0.1;

/** How a router chooses among the workers that passed the filters. No policy has side effects on workers or bookings. */
export interface Policy {
  /** Index of the chosen candidate. */
  choose(candidates: Candidates, placement: Placement, rng: Rng): number;
  /** The cost of one candidate by cause, for the record. */
  explain(candidates: Candidates, at: number, placement: Placement): Record<string, number>;
}

/** `active`: blocks of running requests by worker, kept only for policy `kv`. */
export function createPolicy(name: PolicyName, active: HeldBlocks | undefined): Policy {
  switch (name) {
    case 'predictive':
    case 'approximate':
      return new ProfilePolicy(PREDICTIVE_PROFILE, TIE_RATIO, TIE_MS);
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
