const SEGMENT_BITS = 6;

/** Tables that an index is split into, so that one call never has to move more than this part of all entries. */
export const SEGMENTS = 1 << SEGMENT_BITS;

/** Spreads a hash over 32 bits once more, because an engine's hashes may be counters. The factors are odd and have no other meaning. */
export function mix(low: number, high: number): number {
  return Math.imul(low ^ Math.imul(high, 0x9e3779b1), 0x85ebca6b);
}

/** The segment of a mixed hash: its top bits. */
export function segmentOf(mixed: number): number {
  return mixed >>> (32 - SEGMENT_BITS);
}

/** The slot of a mixed hash in a table: the bits after those of the segment. */
export function slotOf(mixed: number, shift: number): number {
  return (mixed << SEGMENT_BITS) >>> shift;
}
