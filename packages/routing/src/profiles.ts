import type { Candidates } from './candidates.ts';
import { evictionPrice } from './eviction-price.ts';
import type { HeldBlocks } from './held-blocks.ts';
import {
  decodeInterference,
  ownPrefill,
  type Profile,
  queueWait,
  seatWait,
  tierLoad,
} from './terms.ts';

/** The cost of policies `predictive` and `approximate`: predicted milliseconds, lower wins. */
export const PREDICTIVE_PROFILE: Profile = [
  ['queueWaitMs', 1, queueWait],
  ['seatWaitMs', 1, seatWait],
  ['ownPrefillMs', 1, ownPrefill],
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

/** Running requests, each counted as one decode step. */
export const LOAD_PROFILE: Profile = [
  [
    'requestsMs',
    1,
    (candidates, at) =>
      candidates.rows[at]!.booked.requests * candidates.rows[0]!.info.decodeStepMs,
  ],
];

function commonBlockMs(candidates: Candidates): number {
  const { info } = candidates.rows[0]!;
  return info.blockSize / info.prefillTokensPerMs;
}
