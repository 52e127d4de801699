import type { Rng } from '@busbar/base';
import { HeldBlocks } from '../bookings/held-blocks.ts';
import type { PolicyName } from '../types.ts';
import type { Candidates, Placement } from './candidates.ts';
import { chooseCheapest } from './picker.ts';
import { createKvProfile, LOAD_PROFILE, PREDICTIVE_PROFILE } from './profiles.ts';
import type { Profile } from './terms.ts';

/** Predicted costs that differ by less than this share are equal: learned rates are not that exact. */
export const TIE_RATIO = 0.03;

/** How a router chooses among the workers that passed the filters. No policy has side effects on workers or bookings. */
export interface Policy {
  /** What the choice is made of; empty for a policy that predicts nothing. */
  readonly profile: Profile;
  /** Index of the chosen candidate. Leaves the total of each in `candidates.cost`. */
  choose(candidates: Candidates, placement: Placement, rng: Rng): number;
}

/** `active`: blocks of running requests by worker, kept only for policy `kv`. */
export function createPolicy(name: PolicyName, active: HeldBlocks | undefined): Policy {
  switch (name) {
    case 'predictive':
    case 'approximate':
      return new ProfilePolicy(PREDICTIVE_PROFILE, TIE_RATIO);
    case 'kv':
      return new ProfilePolicy(createKvProfile(active ?? new HeldBlocks()), 0);
    case 'least-loaded':
      return new ProfilePolicy(LOAD_PROFILE, 0);
    case 'round-robin':
      return new UnpricedPolicy(createRoundRobin());
    case 'random':
      return new UnpricedPolicy((candidates, rng) => rng.int(candidates.count));
    case 'power-of-two':
      return new UnpricedPolicy(chooseLighterOfTwo);
  }
}

/** Sums weighted terms and takes the cheapest. */
class ProfilePolicy implements Policy {
  readonly profile: Profile;
  readonly #tieRatio: number;

  constructor(profile: Profile, tieRatio: number) {
    this.profile = profile;
    this.#tieRatio = tieRatio;
  }

  choose(candidates: Candidates, placement: Placement, rng: Rng): number {
    const { cost, count } = candidates;
    cost.fill(0, 0, count);
    for (const [, weight, term] of this.profile) term(candidates, placement, weight, cost);
    return chooseCheapest(cost, count, this.#tieRatio, rng);
  }
}

/** Chooses without any prediction, so it has none to explain. */
class UnpricedPolicy implements Policy {
  readonly profile: Profile = [];
  readonly #pick: (candidates: Candidates, rng: Rng) => number;

  constructor(pick: (candidates: Candidates, rng: Rng) => number) {
    this.#pick = pick;
  }

  choose(candidates: Candidates, _placement: Placement, rng: Rng): number {
    candidates.cost.fill(0, 0, candidates.count);
    return this.#pick(candidates, rng);
  }
}

/** Goes on from the worker that had the last turn, by name, so that joins and leaves do not start it over. */
function createRoundRobin(): (candidates: Candidates) => number {
  const lastOfModel = new Map<string, string>();
  return (candidates) => {
    const { model } = candidates.row(0).info;
    const last = lastOfModel.get(model) ?? '';
    let next = 0;
    let end = candidates.count;
    while (next < end) {
      const middle = (next + end) >> 1;
      if (candidates.row(middle).workerId <= last) next = middle + 1;
      else end = middle;
    }
    if (next === candidates.count) next = 0;
    lastOfModel.set(model, candidates.row(next).workerId);
    return next;
  };
}

function chooseLighterOfTwo({ workers, slots, count }: Candidates, rng: Rng): number {
  if (count === 1) return 0;
  const first = rng.int(count);
  const second = (first + 1 + rng.int(count - 1)) % count;
  return workers.requests[slots[second]!]! < workers.requests[slots[first]!]! ? second : first;
}
