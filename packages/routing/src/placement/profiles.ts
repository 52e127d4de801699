import type { HeldBlocks } from '../bookings/held-blocks.ts';
import type { Candidates } from './candidates.ts';
import { evictionPrice } from './eviction-price.ts';
import {
  decodeInterference,
  ownPrefill,
  type Profile,
  queueWait,
  seatWait,
  type Term,
  tierLoad,
} from './terms.ts';

/** Terms of it that the request itself does not wait for. */
export const LATER_TERMS: readonly string[] = ['computeMs', 'evictionPriceMs'];

/** The cost of policies `predictive` and `approximate`: predicted milliseconds, lower wins. */
export const PREDICTIVE_PROFILE: Profile = [
  ['queueWaitMs', 1, queueWait],
  ['seatWaitMs', 1, seatWait],
  ['ownPrefillMs', 1, ownPrefill],
  // Whoever comes later waits for this prefill too: of two equal waits, the one with less work is better.
  ['computeMs', 0.25, ownPrefill],
  ['tierLoadMs', 1, tierLoad],
  ['decodeInterferenceMs', 1, decodeInterference],
  ['evictionPriceMs', 1, evictionPrice],
];

/**
 * NVIDIA Dynamo's published cost with its default weights: blocks still to be prefilled on the worker with this request, minus
 * those it has cached, plus the distinct blocks of running requests with this one. Expressed in milliseconds at one rate for
 * all workers, which does not change the order.
 */
export function createKvProfile(active: HeldBlocks): Profile {
  return [
    ['prefillBlocksMs', 1, kvPrefillBlocks],
    [
      'decodeBlocksMs',
      1,
      (candidates, { hashes, blocks }, weight, cost) => {
        const blockMs = weight * commonBlockMs(candidates);
        for (let at = 0; at < candidates.count; at++) {
          const slot = candidates.slots[at]!;
          const shared = active.depth(slot, hashes, 0);
          cost[at]! += (active.blocksOf(slot) + blocks - shared) * blockMs;
        }
      },
    ],
  ];
}

const kvPrefillBlocks: Term = (candidates, { promptTokens }, weight, cost) => {
  const { workers, slots, count, overlapBlocks } = candidates;
  const blockMs = weight * commonBlockMs(candidates);
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    const raw = (workers.prefillTokens[slot]! + promptTokens) / workers.blockSize[slot]!;
    cost[at]! += Math.max(0, raw - overlapBlocks[at]!) * blockMs;
  }
};

/** Running requests, each counted as one decode step. */
export const LOAD_PROFILE: Profile = [
  [
    'requestsMs',
    1,
    (candidates, _placement, weight, cost) => {
      const { workers, slots, count } = candidates;
      const stepMs = weight * Math.max(candidates.row(0).info.decodeStepMs, 1e-3);
      for (let at = 0; at < count; at++) cost[at]! += workers.requests[slots[at]!]! * stepMs;
    },
  ],
];

function commonBlockMs(candidates: Candidates): number {
  const { info } = candidates.row(0);
  return info.blockSize / info.prefillTokensPerMs;
}
