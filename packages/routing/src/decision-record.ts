import type { Candidates, Placement } from './candidates.ts';
import type { Policy } from './policy.ts';
import type { DecisionRecord, PolicyName } from './types.ts';

/** Candidates of a record: the chosen one and the cheapest others. A record of 1,000 workers would cost more than the choice. */
const RECORDED = 8;

/** Explains a choice. Called before the booking, so the terms are those that were compared. */
export function recordDecision(
  fields: { decisionId: string; model: string; policy: PolicyName },
  chosen: number,
  candidates: Candidates,
  placement: Placement,
  policy: Policy,
): DecisionRecord {
  const listed = cheapest(candidates, chosen);
  return {
    decisionId: fields.decisionId,
    model: fields.model,
    policy: fields.policy,
    promptTokens: placement.promptTokens,
    chosen: candidates.rows[chosen]!.workerId,
    candidates: listed.map((at) => {
      const row = candidates.rows[at]!;
      const terms = policy.explain(candidates, at, placement);
      let totalMs = 0;
      for (const name in terms) totalMs += terms[name]!;
      return {
        workerId: row.workerId,
        overlapBlocks: candidates.overlapBlocks[at]!,
        truth: row.truth.state,
        terms,
        totalMs,
      };
    }),
  };
}

function cheapest(candidates: Candidates, chosen: number): number[] {
  const { cost, count } = candidates;
  const listed = [chosen];
  for (let at = 0; at < count; at++) {
    if (at === chosen) continue;
    const value = cost[at]!;
    if (listed.length === RECORDED && value >= cost[listed[RECORDED - 1]!]!) continue;
    let place = listed.length === RECORDED ? RECORDED - 1 : listed.length;
    while (place > 1 && cost[listed[place - 1]!]! > value) {
      listed[place] = listed[place - 1]!;
      place--;
    }
    listed[place] = at;
  }
  return listed;
}
