import type { DecisionRecord, PolicyName } from '../types.ts';
import type { Candidates, Placement } from './candidates.ts';
import type { Profile } from './terms.ts';

/** Candidates of a record: the chosen one and the cheapest others. A record of 1,000 workers would cost more than the choice. */
const RECORDED = 8;

/** Explains choices. Terms are computed again for the few that are recorded, which is cheaper than keeping them for all. */
export class DecisionRecorder {
  readonly #names: readonly string[];
  /** Copied for each candidate: an object that grows name by name costs more. */
  readonly #template: Readonly<Record<string, number>>;
  readonly #profile: Profile;
  readonly #shortlist: Candidates;
  readonly #terms: readonly Float64Array[];

  /** `shortlist` is scratch. */
  constructor(profile: Profile, shortlist: Candidates) {
    this.#profile = profile;
    this.#names = profile.map(([name]) => name);
    this.#template = Object.fromEntries(this.#names.map((name) => [name, 0.5]));
    this.#shortlist = shortlist;
    this.#terms = profile.map(() => new Float64Array(RECORDED));
  }

  /** Call before the booking, so that the terms are those that were compared. */
  record(
    fields: { decisionId: string; model: string; policy: PolicyName },
    chosen: number,
    candidates: Candidates,
    placement: Placement,
  ): DecisionRecord {
    const listed = cheapest(candidates, chosen, RECORDED);
    this.#shortlist.select(candidates, listed);
    for (let i = 0; i < this.#profile.length; i++) {
      const [, weight, term] = this.#profile[i]!;
      term(this.#shortlist, placement, weight, this.#terms[i]!.fill(0));
    }
    const recorded: DecisionRecord['candidates'] = [];
    for (let place = 0; place < listed.length; place++) {
      const { workerId, truth } = this.#shortlist.row(place);
      recorded.push({
        workerId,
        overlapBlocks: this.#shortlist.overlapBlocks[place]!,
        truth: truth.state,
        terms: this.#termsOf(place),
        totalMs: candidates.cost[listed[place]!]!,
      });
    }
    return {
      decisionId: fields.decisionId,
      model: fields.model,
      policy: fields.policy,
      promptTokens: placement.promptTokens,
      chosen: candidates.row(chosen).workerId,
      candidates: recorded,
    };
  }

  #termsOf(place: number): Record<string, number> {
    const terms = { ...this.#template };
    for (let i = 0; i < this.#names.length; i++) terms[this.#names[i]!] = this.#terms[i]![place]!;
    return terms;
  }
}

/** The chosen candidate first, then the cheapest others in order of their cost, `limit` in all. */
export function cheapest({ cost, count }: Candidates, chosen: number, limit: number): number[] {
  const listed = [chosen];
  let worst = Number.POSITIVE_INFINITY;
  for (let at = 0; at < count; at++) {
    const value = cost[at]!;
    if (at === chosen || value >= worst) continue;
    let place = listed.length === limit ? limit - 1 : listed.length;
    while (place > 1 && cost[listed[place - 1]!]! > value) {
      listed[place] = listed[place - 1]!;
      place--;
    }
    listed[place] = at;
    if (listed.length === limit) worst = cost[listed[limit - 1]!]!;
  }
  return listed;
}
