import { assert } from '@busbar/base';
import type { KvChange } from '@busbar/protocol';
import { BlockPool } from './block-pool.ts';
import type { Sequence } from './sequence.ts';

/** The blocks of all sequences: what they find, take, publish and give back, and what routers are told about it. */
export class KvCache {
  readonly #blockSize: number;
  readonly #pool: BlockPool;
  /** What the last search found; kept between searches to spare the garbage collector. */
  readonly #found: number[] = [];
  /** Hash words that left the cache since `drain` told of them. */
  #dropped: number[] = [];
  #stored: KvChange[] = [];
  /** How many staged sequences hold a block. */
  readonly #stagedRefs = new Map<number, number>();
  #storedTotal = 0;

  constructor(blocks: number, blockSize: number) {
    this.#blockSize = blockSize;
    this.#pool = new BlockPool(blocks);
  }

  get freeBlocks(): number {
    return this.#pool.free;
  }

  get activeBlocks(): number {
    return this.#pool.active;
  }

  /** Blocks that at least one staged sequence holds. */
  get stagedBlocks(): number {
    return this.#stagedRefs.size;
  }

  get storedBlocksTotal(): number {
    return this.#storedTotal;
  }

  /** Whether something changed that was not told yet. */
  get hasNews(): boolean {
    return this.#dropped.length > 0 || this.#stored.length > 0;
  }

  /** Leading blocks of a prompt that are cached, in tokens; at least one token is always left to compute, for its logits. */
  cachedTokens(hashes: Uint32Array, tokens: number): number {
    const limit = Math.floor((tokens - 1) / this.#blockSize);
    this.#found.length = 0;
    for (let at = 0; at < limit && at * 2 < hashes.length; at++) {
      const block = this.#pool.find(hashes[at * 2]!, hashes[at * 2 + 1]!);
      if (block < 0) break;
      this.#found.push(block);
    }
    return this.#found.length * this.#blockSize;
  }

  /** Gives a sequence the cached part of it, if the pool also has room for all the rest. */
  admit(sequence: Sequence): boolean {
    const cachedTokens = this.cachedTokens(sequence.chain.hashes, sequence.tokens);
    let needed = Math.ceil(sequence.tokens / this.#blockSize) - this.#found.length;
    for (const block of this.#found) if (this.#pool.refs(block) === 0) needed++;
    if (needed > this.#pool.available) return false;
    for (const block of this.#found) {
      this.#pool.retain(block);
      sequence.blocks.push(block);
    }
    sequence.publishedBlocks = this.#found.length;
    sequence.computedTokens = cachedTokens;
    return true;
  }

  /** Gives a sequence the blocks for `tokens` more; false, with some of them perhaps taken, when the pool has none left. */
  grow(sequence: Sequence, tokens: number): boolean {
    const needed = Math.ceil((sequence.computedTokens + tokens) / this.#blockSize);
    while (sequence.blocks.length < needed) {
      const block = this.#pool.take(this.#dropped);
      if (block < 0) return false;
      sequence.blocks.push(block);
    }
    return true;
  }

  /** Makes the blocks that are full by now reusable, and notes those that the cache did not hold yet. */
  publish(sequence: Sequence): void {
    const full = Math.floor(sequence.computedTokens / this.#blockSize);
    if (full === sequence.publishedBlocks) return;
    const { hashes } = sequence.chain;
    let from = sequence.publishedBlocks;
    for (let at = from; at < full; at++) {
      const isNew = this.#pool.publish(
        sequence.blocks[at]!,
        hashes[at * 2]!,
        hashes[at * 2 + 1]!,
        at,
      );
      if (isNew) continue;
      this.#note(hashes, from, at);
      from = at + 1;
    }
    this.#note(hashes, from, full);
    sequence.publishedBlocks = full;
  }

  /** Counts the blocks of a sequence as staged, until `unstage`. */
  stage(sequence: Sequence): void {
    const refs = this.#stagedRefs;
    for (const block of sequence.blocks) refs.set(block, (refs.get(block) ?? 0) + 1);
  }

  unstage(sequence: Sequence): void {
    for (const block of sequence.blocks) {
      const rest = (this.#stagedRefs.get(block) ?? 0) - 1;
      if (rest > 0) this.#stagedRefs.set(block, rest);
      else this.#stagedRefs.delete(block);
    }
  }

  /** Takes all blocks back. The tail goes first, so that of one prompt the end is forgotten before the beginning. */
  release(sequence: Sequence): void {
    for (let at = sequence.blocks.length - 1; at >= 0; at--) {
      this.#pool.release(sequence.blocks[at]!);
    }
    sequence.blocks.length = 0;
    sequence.publishedBlocks = 0;
    sequence.computedTokens = 0;
  }

  /** Forgets every block that no sequence uses. */
  reset(): void {
    this.#pool.dropCached(this.#dropped);
  }

  /** What changed since the last call. Blocks are taken before a step and published after it: removals come first. */
  drain(): KvChange[] {
    const changes = this.#stored;
    if (this.#dropped.length > 0) {
      changes.unshift({ kind: 'removed', hashes: Uint32Array.from(this.#dropped) });
    }
    this.#stored = [];
    this.#dropped = [];
    return changes;
  }

  /** All hashes that readers of the changes know: those that left untold are still among them. Parents come before children. */
  hashes(): Uint32Array {
    const byPosition: number[][] = [];
    this.#pool.eachHash((low, high, position) => {
      (byPosition[position] ??= []).push(low, high);
    });
    return Uint32Array.from([...byPosition.flat(), ...this.#dropped]);
  }

  /** Throws when the pool does not agree with itself or with the blocks that these sequences hold. */
  checkInvariants(holders: readonly Sequence[]): void {
    this.#pool.checkInvariants();
    const refs = new Int32Array(this.#pool.size);
    const staged = new Set<number>();
    for (const sequence of holders) {
      if (sequence.state === 'staged') for (const block of sequence.blocks) staged.add(block);
      const needed = Math.ceil(
        (sequence.computedTokens + sequence.plannedTokens) / this.#blockSize,
      );
      assert(sequence.blocks.length >= needed, 'a sequence holds all that it computed');
      for (const block of sequence.blocks) refs[block]!++;
    }
    refs.forEach((count, block) => {
      assert(count === this.#pool.refs(block), 'references match the sequences');
    });
    assert(staged.size === this.#stagedRefs.size, 'staged blocks are those of staged sequences');
  }

  #note(hashes: Uint32Array, from: number, to: number): void {
    if (to <= from) return;
    this.#stored.push({ kind: 'stored', hashes: hashes.slice(from * 2, to * 2) });
    this.#storedTotal += to - from;
  }
}
