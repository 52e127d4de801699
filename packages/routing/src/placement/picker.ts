import type { Rng } from '@busbar/base';

/**
 * Index of the lowest cost. Costs within `tieRatio` of it count as equal and are drawn from evenly: learned rates differ by
 * noise, and noise must not send every request of an idle pool to one worker.
 */
export function chooseCheapest(
  cost: Float64Array,
  count: number,
  tieRatio: number,
  rng: Rng,
): number {
  let lowest = cost[0]!;
  for (let at = 1; at < count; at++) lowest = Math.min(lowest, cost[at]!);
  const limit = lowest + Math.abs(lowest) * tieRatio;
  let ties = 0;
  let last = 0;
  for (let at = 0; at < count; at++) {
    const isTie = cost[at]! <= limit;
    ties += isTie ? 1 : 0;
    last = isTie ? at : last;
  }
  if (ties === 1) return last;
  let skip = rng.int(ties);
  for (let at = 0; at < count; at++) {
    if (cost[at]! <= limit && skip-- === 0) return at;
  }
  return last;
}
