import type { BlockTable } from './block-table.ts';
import { mix, segmentOf, slotOf } from './mix.ts';

/** Blocks whose entries are fetched together before they are compared. */
const GROUP = 16;
const OWNER_BITS = 32;
const OWNERS_AT = 2;

/** Room that matches share; the contents mean nothing between calls. */
export interface MatchScratch {
  /** The segment of each block of a group, the first entry to compare in it, and what lies there. */
  segments: Uint8Array;
  starts: Int32Array;
  heads: Uint32Array;
  /** Owners that hold every block so far, as a bitset, and which of its words are not 0 yet. */
  alive: Uint32Array;
  live: Int32Array;
}

export function createMatchScratch(ownerWords: number): MatchScratch {
  return {
    segments: new Uint8Array(GROUP),
    starts: new Int32Array(GROUP),
    heads: new Uint32Array(GROUP),
    alive: new Uint32Array(ownerWords),
    live: new Int32Array(ownerWords),
  };
}

/**
 * Counts the leading blocks that each owner holds. Walks the blocks in order with the set of owners that hold all of them
 * so far: an owner leaves at its first hole, and the walk ends when nobody is left. Nothing is assumed about which blocks
 * an owner has, so the result is exact after any history.
 */
export function matchOwners(
  tables: readonly BlockTable[],
  hashes: Uint32Array,
  overlaps: Uint32Array,
  scratch: MatchScratch,
): void {
  overlaps.fill(0);
  if (scratch.alive.length === 1) matchNarrow(tables, hashes, overlaps, scratch);
  else matchWide(tables, hashes, overlaps, scratch);
}

function matchNarrow(
  tables: readonly BlockTable[],
  hashes: Uint32Array,
  overlaps: Uint32Array,
  scratch: MatchScratch,
): void {
  const blocks = hashes.length >> 1;
  const { segments, starts } = scratch;
  let alive = ownerMask(0, overlaps.length);
  for (let from = 0; from < blocks; from += GROUP) {
    const to = Math.min(from + GROUP, blocks);
    fetchGroup(tables, hashes, from, to, scratch);
    for (let block = from; block < to; block++) {
      const table = tables[segments[block - from]!]!;
      const at = probe(table, starts[block - from]!, hashes, block);
      const lost = alive & ~table.words[at + OWNERS_AT]!;
      if (lost === 0) continue;
      setOverlaps(overlaps, 0, lost, block);
      alive ^= lost;
      if (alive === 0) return;
    }
  }
  setOverlaps(overlaps, 0, alive, blocks);
}

function matchWide(
  tables: readonly BlockTable[],
  hashes: Uint32Array,
  overlaps: Uint32Array,
  scratch: MatchScratch,
): void {
  const blocks = hashes.length >> 1;
  const { segments, starts, alive, live } = scratch;
  let liveWords = Math.min(alive.length, Math.ceil(overlaps.length / OWNER_BITS));
  for (let word = 0; word < liveWords; word++) {
    alive[word] = ownerMask(word, overlaps.length);
    live[word] = word;
  }
  for (let from = 0; from < blocks && liveWords > 0; from += GROUP) {
    const to = Math.min(from + GROUP, blocks);
    fetchGroup(tables, hashes, from, to, scratch);
    for (let block = from; block < to; block++) {
      const table = tables[segments[block - from]!]!;
      const words = table.words;
      const owners = probe(table, starts[block - from]!, hashes, block) + OWNERS_AT;
      for (let i = 0; i < liveWords; i++) {
        const word = live[i]!;
        const lost = alive[word]! & ~words[owners + word]!;
        if (lost === 0) continue;
        setOverlaps(overlaps, word, lost, block);
        alive[word]! ^= lost;
        if (alive[word] !== 0) continue;
        live[i--] = live[--liveWords]!;
      }
      if (liveWords === 0) return;
    }
  }
  for (let i = 0; i < liveWords; i++) setOverlaps(overlaps, live[i]!, alive[live[i]!]!, blocks);
}

/**
 * Reads the first entry of each block of a group. The reads do not wait for one another, while the comparisons of `probe`
 * guess and stall; so most of the cache misses of a group overlap. Storing what was read keeps the reads alive.
 */
function fetchGroup(
  tables: readonly BlockTable[],
  hashes: Uint32Array,
  from: number,
  to: number,
  scratch: MatchScratch,
): void {
  const { segments, starts, heads } = scratch;
  for (let block = from; block < to; block++) {
    const mixed = mix(hashes[2 * block]!, hashes[2 * block + 1]!);
    const segment = segmentOf(mixed);
    const table = tables[segment]!;
    const at = slotOf(mixed, table.shift) * table.stride;
    segments[block - from] = segment;
    starts[block - from] = at;
    heads[block - from] = table.words[at]!;
  }
}

/** Index of the block's entry or of a free one, whose owner bits are 0. `at` is the block's slot. */
function probe(table: BlockTable, at: number, hashes: Uint32Array, block: number): number {
  const { words, stride, end } = table;
  const low = hashes[2 * block]!;
  const high = hashes[2 * block + 1]!;
  if ((low | high) === 0) return end;
  let index = at;
  for (;;) {
    const entryLow = words[index]!;
    const entryHigh = words[index + 1]!;
    if (entryLow === low && entryHigh === high) return index;
    if ((entryLow | entryHigh) === 0) return index;
    index += stride;
    if (index === end) index = 0;
  }
}

/** Bits of the owners below `owners` in bitset word `word`. */
function ownerMask(word: number, owners: number): number {
  const bits = owners - word * OWNER_BITS;
  return bits >= OWNER_BITS ? -1 : (1 << bits) - 1;
}

function setOverlaps(overlaps: Uint32Array, word: number, owners: number, blocks: number): void {
  for (let rest = owners; rest !== 0; rest &= rest - 1) {
    overlaps[word * OWNER_BITS + 31 - Math.clz32(rest & -rest)] = blocks;
  }
}
