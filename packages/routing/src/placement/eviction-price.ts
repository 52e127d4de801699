import { mostLacking, type Term } from './terms.ts';

/** Prefills that a displaced block in use costs: it is asked for again some times, and each time displaces another. */
const PREFILLS = 15;

/**
 * What the blocks that must go are likely to cost later, in milliseconds.
 *
 * Only blocks in use have a price: the worker's working set and the request together, less its capacity. An LRU cache that holds
 * less than what is in use loses far more than the overflow, again and again, so each displaced block is priced at many
 * prefills, times the share of blocks that are reused at all. Where all caches overflow the price is the same everywhere
 * and decides nothing.
 *
 * Unless reuse comes in rounds: then each further block costs an overflowing cache less than the one before, and it is better to
 * let one cache overflow more than two. The price falls with the cube of the overfilling as far as reuse is regular.
 */
export const evictionPrice: Term = (candidates, placement, weight, cost) => {
  const { workers, slots, count, uncachedTokens, seenBlocks } = candidates;
  const { slackTokens, capacityTokens, blockSize } = workers;
  if (mostLacking(candidates, slackTokens) <= 0) return;
  const { regularity, reuseRatio, tokensPerMs } = candidates.row(0).reuse;
  const tokenPrice = (weight * PREFILLS * reuseRatio) / tokensPerMs.value;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const added = uncachedTokens[at]!;
    let slack = slackTokens[slot]!;
    if (added <= slack) continue;
    // Blocks of this very prompt that the set has and the cache lost do not count twice.
    const lost = candidates.row(at).workingSet.depth(placement.hashes) - seenBlocks[at]!;
    if (lost > 0) slack += lost * blockSize[slot]!;
    const overflow = (added - slack) * (1 + regularity);
    if (overflow <= 0) continue;
    const fill = Math.max(1, 1 - slack / capacityTokens[slot]!);
    const discount = 1 - regularity * (1 - 1 / fill ** 3);
    cost[at]! += Math.min(overflow, added) * tokenPrice * discount;
  }
};
