import { z } from 'zod';

const INT64 = 2 ** 63;
/** The widest gap between numbers of this size: the step that is always seen in one. */
const GAP = 1_024;
/** The largest number below 2^63. `JSON.stringify` rounds the digits of -2^63 itself to ones that no int64 can hold. */
const MOST = INT64 - GAP;

/**
 * A seed of the 64 bits that clients send at random. JSON numbers above 2^53 lose digits on their way in, always in the same way: a
 * seed only needs to be repeatable. 2^63 - 1 is read as 2^63, so that one passes and counts as the largest below it.
 */
export const seedSchema = z
  .number()
  .min(-INT64)
  .max(INT64)
  .refine(Number.isInteger)
  .transform((seed) => Math.max(-MOST, Math.min(seed, MOST)));

/** The seed of candidate `index`: seed + index, or where numbers have gaps another one for each. Stays within 64 bits. */
export function candidateSeed(seed: number, index: number): number {
  if (Number.isSafeInteger(seed + index)) return seed + index;
  const up = seed + index * GAP;
  return up <= MOST ? up : seed - index * GAP;
}
