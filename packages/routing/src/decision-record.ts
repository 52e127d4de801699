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
  const recorded: DecisionRecord['candidates'] = [];
  for (const at of cheapest(candidates, chosen)) {
    const row = candidates.rows[at]!;
    recorded.push({
      workerId: row.workerId,
      overlapBlocks: candidates.overlapBlocks[at]!,
      truth: row.truth.state,
      terms: policy.explain(at),
      totalMs: candidates.cost[at]!,
    });
  }
  return {
    decisionId: fields.decisionId,
    model: fields.model,
    policy: fields.policy,
    promptTokens: placement.promptTokens,
    chosen: candidates.rows[chosen]!.workerId,
    candidates: recorded,
  };
}

/** The chosen candidate first, then the cheapest others in order of their cost. */
function cheapest({ cost, count }: Candidates, chosen: number): number[] {
  const listed = [chosen];
  let worst = Number.POSITIVE_INFINITY;
  for (let at = 0; at < count; at++) {
    const value = cost[at]!;
    if (at === chosen || value >= worst) continue;
    let place = listed.length === RECORDED ? RECORDED - 1 : listed.length;
    while (place > 1 && cost[listed[place - 1]!]! > value) {
      listed[place] = listed[place - 1]!;
      place--;
    }
    listed[place] = at;
    if (listed.length === RECORDED) worst = cost[listed[RECORDED - 1]!]!;
  }
  return listed;
}
