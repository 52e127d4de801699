import type { Candidates, Placement } from '../placement/candidates.ts';
import type { Profile } from '../placement/terms.ts';

/** The terms of a profile for a set of candidates, each in milliseconds. Reused for every decision. */
export class Pricing {
  readonly #profile: Profile;
  #columns: Float64Array[];

  constructor(profile: Profile) {
    this.#profile = profile;
    this.#columns = profile.map(() => new Float64Array(16));
  }

  price(candidates: Candidates, placement: Placement): void {
    const { count } = candidates;
    if (this.#columns[0]!.length < count) {
      const size = 2 ** Math.ceil(Math.log2(count));
      this.#columns = this.#profile.map(() => new Float64Array(size));
    }
    for (let i = 0; i < this.#profile.length; i++) {
      const [, weight, term] = this.#profile[i]!;
      term(candidates, placement, weight, this.#columns[i]!.fill(0, 0, count));
    }
  }

  /** Sum of the terms `from` up to `to` of the profile. */
  sumMs(at: number, from = 0, to = this.#profile.length): number {
    let sum = 0;
    for (let i = from; i < to; i++) sum += this.#columns[i]![at]!;
    return sum;
  }

  termsOf(at: number): Record<string, number> {
    const terms: Record<string, number> = {};
    for (let i = 0; i < this.#profile.length; i++) {
      terms[this.#profile[i]![0]] = this.#columns[i]![at]!;
    }
    return terms;
  }
}
