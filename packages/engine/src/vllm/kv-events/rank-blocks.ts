import { type KvChange, TIERS, type Tier } from '@busbar/protocol';
import { BlockNamer, type NamedBlock } from './block-namer.ts';
import type { EngineHash, RemovedEvent, StoredEvent, VllmKvEvent } from './events.ts';
import { TierBlocks } from './tier-blocks.ts';

/** Kinds of cache groups in which a block serves every later request that begins with the same tokens. */
const PREFIX_KINDS: ReadonlySet<string> = new Set([
  'full_attention',
  'mla_attention',
  'sink_full_attention',
]);

/** About 400 MB, at 190 bytes a block. An engine that seems to hold more is miscounted, since removals were lost. */
const MAX_RANK_BLOCKS = 2_097_152;

export interface TierChanges {
  tier: Tier;
  changes: KvChange[];
}

/** What events did. */
export interface Applied {
  changes: TierChanges[];
  storedBlocks: number;
  removedBlocks: number;
  clears: number;
  /** Blocks that are unknown for want of their parent. */
  orphanBlocks: number;
  ignoredEvents: number;
  /** A block size that is not the expected one; the events that name it were not used. */
  otherBlockSize?: number;
  /** More blocks than any engine has: everything was dropped. */
  isOverfull?: boolean;
  /** More blocks than this engine has: everything was dropped, and from now on a block counts once. */
  isOvercounted?: boolean;
}

/**
 * The KV cache of one data-parallel rank, as its events tell it. Engine hashes are opaque: each block gets our own chained hash by its
 * tokens and its parent, adapter and salt, and is kept under the engine's.
 *
 * A hash that is stored twice is two physical blocks and is removed twice. But a request may ask its engine to tell blocks again that it
 * found in the cache, and nothing in those events says so: they would keep a block for ever that the engine has evicted. They show
 * by more references than the engine has blocks. From then on a hash counts once: one that has a second block left is then
 * missed, which costs a hit at most.
 */
export class RankBlocks {
  readonly #maxBlocks: number;
  readonly #tiers = new Map<Tier, TierBlocks>();
  #namer: BlockNamer | undefined;
  #blockSize: number | undefined;
  #kvBlocks = Number.POSITIVE_INFINITY;
  #countsOnce = false;

  constructor(maxBlocks = MAX_RANK_BLOCKS) {
    this.#maxBlocks = maxBlocks;
  }

  /** Engine hashes held, over all tiers. */
  get size(): number {
    let size = 0;
    for (const blocks of this.#tiers.values()) size += blocks.size;
    return size;
  }

  /** The block size of the events so far, or the expected one. */
  get blockSize(): number | undefined {
    return this.#blockSize;
  }

  /**
   * Events of another block size are refused from now on. What is known of another size is to be cleared by the caller. `kvBlocks`: how
   * many the rank has on its device; absent where nobody knows.
   */
  expectBlocks(blockSize: number, kvBlocks?: number): void {
    this.#blockSize = blockSize;
    this.#kvBlocks = kvBlocks ?? this.#kvBlocks;
    this.#namer = new BlockNamer(blockSize);
  }

  apply(events: readonly VllmKvEvent[]): Applied {
    const applied = nothing();
    for (const event of events) {
      if (event.kind === 'stored') this.#store(event, applied);
      else if (event.kind === 'removed') this.#remove(event, applied);
      else if (event.kind === 'cleared') {
        applied.clears++;
        this.#clearAll();
      } else applied.ignoredEvents++;
    }
    if (this.size > this.#maxBlocks) {
      applied.isOverfull = true;
      this.#clearAll();
    }
    if ((this.#tiers.get('device')?.references ?? 0) > this.#kvBlocks) {
      applied.isOvercounted = true;
      this.#countsOnce = true;
      this.#clearAll();
    }
    applied.changes = this.#takeChanges();
    return applied;
  }

  /** Forgets all blocks; the result says so for each tier that was ever used. */
  clear(): TierChanges[] {
    this.#clearAll();
    return this.#takeChanges();
  }

  blocks(): { tier: Tier; hashes: Uint32Array }[] {
    return [...this.#tiers].map(([tier, blocks]) => ({ tier, hashes: blocks.hashes() }));
  }

  #store(event: StoredEvent, applied: Applied): void {
    if (!isPrefixGroup(event)) {
      applied.ignoredEvents++;
      return;
    }
    const tier = this.#tier(event.tier);
    if (!tier.takesGroup(event.group)) {
      applied.ignoredEvents++;
    } else if (event.tokens.length === 0) {
      this.#storeKnown(tier, event.hashes, applied);
    } else if (event.tokens.length !== event.hashes.length * event.blockSize) {
      // A block that is not full yet: nobody can ask for it by a hash.
      applied.ignoredEvents++;
    } else if (event.blockSize !== (this.#blockSize ?? event.blockSize)) {
      applied.otherBlockSize = event.blockSize;
    } else {
      this.#storeChain(tier, event, applied);
    }
  }

  #storeChain(tier: TierBlocks, event: StoredEvent, applied: Applied): void {
    if (this.#namer === undefined) this.expectBlocks(event.blockSize);
    const { hashes } = event;
    let parent = event.parent === undefined ? undefined : this.#find(event.parent);
    let from = 0;
    tier.endRun();
    if (event.parent !== undefined && parent === undefined) {
      // Blocks that another tier holds, or that are stored once more, are known without their parent.
      const known = hashes.findIndex((hash) => this.#find(hash) !== undefined);
      from = known < 0 ? hashes.length : known;
      applied.orphanBlocks += from;
      if (known < 0) return;
      parent = this.#find(hashes[from]!)!;
      if (tier.store(hashes[from]!, parent, this.#countsOnce)) applied.storedBlocks++;
      from++;
    }
    const names = this.#namer!.name(event, from, parent);
    if (names.some(({ hash }) => hash === undefined)) applied.ignoredEvents++;
    for (const [i, name] of names.entries()) {
      if (tier.store(hashes[from + i]!, name, this.#countsOnce)) applied.storedBlocks++;
    }
  }

  /** The engine says that it has blocks in a tier without saying what they are: those known from another tier count. */
  #storeKnown(tier: TierBlocks, hashes: readonly EngineHash[], applied: Applied): void {
    for (const hash of hashes) {
      const block = this.#find(hash);
      tier.endRun();
      if (block === undefined) applied.ignoredEvents++;
      else if (tier.store(hash, block, this.#countsOnce)) applied.storedBlocks++;
    }
  }

  #remove(event: RemovedEvent, applied: Applied): void {
    const tier = this.#tiers.get(event.tier);
    if (tier === undefined || !tier.hasGroup(event.group)) {
      applied.ignoredEvents++;
      return;
    }
    for (const hash of event.hashes) {
      if (tier.remove(hash)) applied.removedBlocks++;
    }
  }

  #find(hash: EngineHash): NamedBlock | undefined {
    for (const blocks of this.#tiers.values()) {
      const block = blocks.find(hash);
      if (block !== undefined) return block;
    }
    return undefined;
  }

  #tier(tier: Tier): TierBlocks {
    let blocks = this.#tiers.get(tier);
    if (blocks === undefined) {
      blocks = new TierBlocks();
      this.#tiers.set(tier, blocks);
    }
    return blocks;
  }

  #clearAll(): void {
    for (const blocks of this.#tiers.values()) blocks.clear();
  }

  #takeChanges(): TierChanges[] {
    return TIERS.flatMap((tier) => {
      const changes = this.#tiers.get(tier)?.takeChanges() ?? [];
      return changes.length === 0 ? [] : [{ tier, changes }];
    });
  }
}

/** Without a kind the first group is taken for the one with full attention. */
function isPrefixGroup({ group, groupKind }: StoredEvent): boolean {
  if (groupKind === undefined || groupKind === 'unknown') return (group ?? 0) === 0;
  return PREFIX_KINDS.has(groupKind);
}

function nothing(): Applied {
  return {
    changes: [],
    storedBlocks: 0,
    removedBlocks: 0,
    clears: 0,
    orphanBlocks: 0,
    ignoredEvents: 0,
  };
}
