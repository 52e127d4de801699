import { evictionPrice } from '../placement/eviction-price.ts';
import { LATER_TERMS, PREDICTIVE_PROFILE } from '../placement/profiles.ts';
import {
  baseStep,
  decodeInterference,
  ownPrefill,
  type Profile,
  queueWait,
  seatWait,
  type Term,
  tierLoad,
} from '../placement/terms.ts';

/**
 * What a millisecond by which tokens of others come later counts against one of the request's own. The aim is the mean delay over all
 * requests, so they count alike. More would let one long prompt wait for a slow link to spare many short delays; less is what one
 * worker without a prefill pool does.
 */
const DELAY_WEIGHT = 1;
/** As in the price of a placement: whoever comes later waits for this prefill too. */
const LATER_WEIGHT = 0.25;

/** A prefill takes its turns in the same steps as running decodes, so each of them is held up by all of it. */
const prefillInterference: Term = (candidates, _placement, weight, cost) => {
  const { workers, slots, count, uncachedTokens } = candidates;
  const { requests, fetches, msPerToken } = workers;
  for (let at = 0; at < count; at++) {
    const slot = slots[at]!;
    // Those whose prefill is ahead will decode by then; those whose KV is on its way may not.
    const running = requests[slot]! - fetches[slot]!;
    cost[at]! += weight * running * uncachedTokens[at]! * msPerToken[slot]!;
  }
};

/** The first token of a split request takes a decode step, where a prefill brings it along. */
const firstStep: Term = ({ workers, slots, count }, _placement, weight, cost) => {
  for (let at = 0; at < count; at++) cost[at]! += weight * workers.decodeStepMs[slots[at]!]!;
};

const DELAY_PROFILE: Profile = [['prefillInterferenceMs', DELAY_WEIGHT, prefillInterference]];

/**
 * The whole request at one worker. Both ways take base steps: a prefill one, where the rate leaves it out, and a split one more at the
 * decode worker. Placement without a split goes on without: simulated, the base step makes no choice among workers better.
 */
export const LOCAL_PROFILE: Profile = [
  ...PREDICTIVE_PROFILE,
  ['baseStepMs', 1, baseStep],
  ...DELAY_PROFILE,
];

/** The prefill leg. The first five pass before the KV is ready; the last is paid by who comes later. */
export const PREFILL_PROFILE: Profile = [
  ['prefillQueueMs', 1, queueWait],
  ['prefillSeatMs', 1, seatWait],
  ['prefillMs', 1, ownPrefill],
  ['prefillBaseStepMs', 1, baseStep],
  ['prefillTierLoadMs', 1, tierLoad],
  ['prefillComputeMs', LATER_WEIGHT, ownPrefill],
];
export const READY_TERMS = 5;

/**
 * Decides which prefill worker, and not whether to split: what its cache holds is worth something only as long as requests are split, so
 * fear for it must not end that, and with it all that could be learned of its use.
 */
export const PREFILL_CHOICE_PROFILE: Profile = [['prefillEvictionMs', 1, evictionPrice]];

/** The decode leg. The first passes before the KV can be fetched. */
export const DECODE_PROFILE: Profile = [
  ['decodeSeatMs', 1, seatWait],
  ['decodeInterferenceMs', 1, decodeInterference],
  ['firstStepMs', 1, firstStep],
  ['decodeEvictionMs', 1, evictionPrice],
];
/** Of the terms above, those that pass before the first token. */
export const FIRST_TOKEN_TERMS = 3;

/** Terms of the three profiles that do not pass before the request's own first token. */
export const SPLIT_LATER_TERMS: readonly string[] = [
  ...LATER_TERMS,
  ...[
    ...DELAY_PROFILE,
    ...PREFILL_PROFILE.slice(READY_TERMS),
    ...DECODE_PROFILE.slice(FIRST_TOKEN_TERMS),
  ].map(([name]) => name),
];
