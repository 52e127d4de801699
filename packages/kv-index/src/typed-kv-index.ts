import { assert } from '@busbar/base';
import { BlockTable } from './block-table.ts';
import { createMatchScratch, type MatchScratch, matchOwners } from './match.ts';
import { mix, SEGMENTS, segmentOf } from './mix.ts';
import type { KvIndex, KvIndexOptions } from './types.ts';

const OWNER_BITS = 32;
const OWNERS_AT = 2;
/** Owners above this are a mistake of the caller, not a pool: the bitset of every block would take a kilobyte. */
const MAX_OWNERS = 8192;

/** An index that is empty. Costs and guarantees: README of this package. */
export function createKvIndex(options: KvIndexOptions = {}): KvIndex {
  return new TypedKvIndex(options.initialOwners ?? OWNER_BITS);
}

class TypedKvIndex implements KvIndex {
  readonly #tables: readonly BlockTable[];
  #ownerBlocks: Uint32Array;
  #scratch: MatchScratch;

  constructor(initialOwners: number) {
    assert(initialOwners <= MAX_OWNERS, `${initialOwners} owners`);
    const ownerWords = Math.max(1, Math.ceil(initialOwners / OWNER_BITS));
    this.#tables = Array.from({ length: SEGMENTS }, () => new BlockTable(ownerWords));
    this.#ownerBlocks = new Uint32Array(ownerWords * OWNER_BITS);
    this.#scratch = createMatchScratch(ownerWords);
  }

  store(owner: number, hashes: Uint32Array): void {
    checkHashes(hashes);
    this.#admit(owner);
    const tables = this.#tables;
    const offset = OWNERS_AT + (owner >>> 5);
    const bit = 1 << (owner & 31);
    let added = 0;
    for (let i = 0; i < hashes.length; i += 2) {
      const low = hashes[i]!;
      const high = hashes[i + 1]!;
      const mixed = mix(low, high);
      const table = tables[segmentOf(mixed)]!;
      let at = table.find(low, high, mixed);
      if (table.isFree(at)) at = table.add(at, low, high, mixed);
      const owners = table.words[at + offset]!;
      if ((owners & bit) === 0) added++;
      table.words[at + offset] = owners | bit;
    }
    this.#ownerBlocks[owner]! += added;
  }

  remove(owner: number, hashes: Uint32Array): void {
    checkHashes(hashes);
    if (this.blocksOf(owner) === 0) return;
    const tables = this.#tables;
    const offset = OWNERS_AT + (owner >>> 5);
    const bit = 1 << (owner & 31);
    let removed = 0;
    for (let i = 0; i < hashes.length; i += 2) {
      const low = hashes[i]!;
      const high = hashes[i + 1]!;
      const mixed = mix(low, high);
      const table = tables[segmentOf(mixed)]!;
      const at = table.find(low, high, mixed);
      const owners = table.words[at + offset]!;
      if ((owners & bit) === 0) continue;
      table.words[at + offset] = owners & ~bit;
      removed++;
      if (table.hasOwners(at)) continue;
      table.delete(at);
      table.shrink();
    }
    this.#ownerBlocks[owner]! -= removed;
  }

  clear(owner: number): void {
    if (this.blocksOf(owner) === 0) return;
    for (const table of this.#tables) clearTable(table, owner);
    this.#ownerBlocks[owner] = 0;
  }

  has(owner: number, low: number, high: number): boolean {
    if (this.blocksOf(owner) === 0) return false;
    const mixed = mix(low, high);
    const table = this.#tables[segmentOf(mixed)]!;
    const at = table.find(low >>> 0, high >>> 0, mixed);
    return (table.words[at + OWNERS_AT + (owner >>> 5)]! & (1 << (owner & 31))) !== 0;
  }

  match(hashes: Uint32Array, overlaps: Uint32Array): void {
    checkHashes(hashes);
    matchOwners(this.#tables, hashes, overlaps, this.#scratch);
  }

  blocksOf(owner: number): number {
    checkOwner(owner);
    return this.#ownerBlocks[owner] ?? 0;
  }

  dump(owner: number): Uint32Array {
    const hashes = new Uint32Array(this.blocksOf(owner) * 2);
    let filled = 0;
    for (const table of this.#tables) filled = dumpTable(table, owner, hashes, filled);
    return hashes;
  }

  get blocks(): number {
    return this.#tables.reduce((sum, table) => sum + table.used, 0);
  }

  get capacity(): number {
    return this.#tables.reduce((sum, table) => sum + table.capacity, 0);
  }

  get bytes(): number {
    const tables = this.#tables.reduce((sum, table) => sum + table.words.byteLength, 0);
    const scratch = Object.values(this.#scratch).reduce((sum, room) => sum + room.byteLength, 0);
    return tables + this.#ownerBlocks.byteLength + scratch;
  }

  /** Makes room for the owner in every bitset, doubling so that growing by one owner at a time stays cheap. */
  #admit(owner: number): void {
    checkOwner(owner);
    if (owner < this.#ownerBlocks.length) return;
    let ownerWords = this.#ownerBlocks.length / OWNER_BITS;
    while (ownerWords * OWNER_BITS <= owner) ownerWords *= 2;
    for (const table of this.#tables) table.widen(ownerWords);
    const ownerBlocks = new Uint32Array(ownerWords * OWNER_BITS);
    ownerBlocks.set(this.#ownerBlocks);
    this.#ownerBlocks = ownerBlocks;
    this.#scratch = createMatchScratch(ownerWords);
  }
}

function clearTable(table: BlockTable, owner: number): void {
  const { words, stride, end } = table;
  const offset = OWNERS_AT + (owner >>> 5);
  const bit = 1 << (owner & 31);
  for (let at = 0; at <= end; ) {
    const owners = words[at + offset]!;
    if ((owners & bit) !== 0) {
      words[at + offset] = owners & ~bit;
      if (!table.hasOwners(at)) {
        table.delete(at);
        // Another entry may lie here now. What moves from the front of the table to its end was seen there already.
        if (at !== end) continue;
      }
    }
    at += stride;
  }
  table.shrink();
}

/** Writes the owner's blocks to `hashes` from word `filled` on; returns where it ended. */
function dumpTable(table: BlockTable, owner: number, hashes: Uint32Array, filled: number): number {
  const { words, stride, end } = table;
  const offset = OWNERS_AT + (owner >>> 5);
  const bit = 1 << (owner & 31);
  let to = filled;
  for (let at = 0; at <= end; at += stride) {
    if ((words[at + offset]! & bit) === 0) continue;
    hashes[to++] = words[at]!;
    hashes[to++] = words[at + 1]!;
  }
  return to;
}

function checkOwner(owner: number): void {
  assert(Number.isInteger(owner) && owner >= 0 && owner < MAX_OWNERS, `owner ${owner}`);
}

function checkHashes(hashes: Uint32Array): void {
  assert(hashes.length % 2 === 0, `${hashes.length} hash words, not two a block`);
}
