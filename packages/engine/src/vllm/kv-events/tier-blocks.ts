import type { KvChange } from '@busbar/protocol';
import type { NamedBlock } from './block-namer.ts';
import type { EngineHash } from './events.ts';
import { U64Map } from './u64-map.ts';

interface Held {
  block: NamedBlock;
  /** Physical blocks with this hash: it is gone when it was removed as often as it was stored. */
  references: number;
}

/** The blocks that one rank holds in one tier: engine hash to block, references counted. */
export class TierBlocks {
  readonly #held = new U64Map<Held>();
  /** Each block that can be named once, by our hash. */
  readonly #named = new U64Map<NamedBlock>();
  /** The one cache group whose blocks count; others repeat it or hold what no prefix needs. Undefined until the first event. */
  #group: { index: number | undefined } | undefined;
  #references = 0;
  #changes: KvChange[] = [];
  #run: { kind: 'stored' | 'removed'; words: number[] } | undefined;

  /** Engine hashes held. */
  get size(): number {
    return this.#held.size;
  }

  /** Physical blocks, if the engine tells each of them once. */
  get references(): number {
    return this.#references;
  }

  /** Whether blocks of this cache group are kept here; the first group that asks is the one. */
  takesGroup(index: number | undefined): boolean {
    this.#group ??= { index };
    return this.#group.index === index;
  }

  hasGroup(index: number | undefined): boolean {
    return this.#group !== undefined && this.#group.index === index;
  }

  find(hash: EngineHash): NamedBlock | undefined {
    return this.#held.get(hash)?.block;
  }

  /** Adds one reference to `hash`, which means `block` unless it is known; `once`: only if it is not. True: the hash is new here. */
  store(hash: EngineHash, block: NamedBlock, once: boolean): boolean {
    const held = this.#held.get(hash);
    if (held !== undefined) {
      if (!once) {
        held.references++;
        this.#references++;
      }
      this.endRun();
      return false;
    }
    const shared = block.hash === undefined ? undefined : this.#named.get(block.hash);
    const own = shared ?? { ...block, holders: 0 };
    own.holders++;
    this.#references++;
    this.#held.set(hash, { block: own, references: 1 });
    if (own.hash === undefined || shared !== undefined) {
      this.endRun();
    } else {
      this.#named.set(own.hash, own);
      this.#note('stored', own.hash);
    }
    return true;
  }

  /** Takes one reference away. True: the hash is gone. Unknown hashes are of groups or blocks that are not kept. */
  remove(hash: EngineHash): boolean {
    const held = this.#held.get(hash);
    if (held === undefined) return false;
    this.#references--;
    if (--held.references > 0) return false;
    this.#held.delete(hash);
    const { block } = held;
    if (--block.holders === 0 && block.hash !== undefined) {
      this.#named.delete(block.hash);
      this.#note('removed', block.hash);
    }
    return true;
  }

  clear(): void {
    this.#held.clear();
    this.#named.clear();
    this.#references = 0;
    this.#run = undefined;
    this.#changes = [{ kind: 'cleared' }];
  }

  /** What is stored next does not follow the block stored last. */
  endRun(): void {
    if (this.#run === undefined) return;
    const { kind, words } = this.#run;
    this.#changes.push({ kind, hashes: Uint32Array.from(words) });
    this.#run = undefined;
  }

  takeChanges(): KvChange[] {
    this.endRun();
    const changes = this.#changes;
    this.#changes = [];
    return changes;
  }

  /** Our hashes of all blocks that have one, those of less depth first. */
  hashes(): Uint32Array {
    let deepest = 0;
    this.#named.forEach(({ depth }) => {
      deepest = Math.max(deepest, depth);
    });
    const places = new Uint32Array(deepest + 2);
    this.#named.forEach(({ depth }) => places[depth + 1]!++);
    for (let depth = 1; depth <= deepest; depth++) places[depth]! += places[depth - 1]!;
    const hashes = new BigUint64Array(this.#named.size);
    this.#named.forEach(({ hash, depth }) => {
      hashes[places[depth]!++] = hash ?? 0n;
    });
    return new Uint32Array(hashes.buffer);
  }

  #note(kind: 'stored' | 'removed', hash: bigint): void {
    if (this.#run?.kind !== kind) this.endRun();
    this.#run ??= { kind, words: [] };
    this.#run.words.push(Number(hash & 0xffff_ffffn), Number(hash >> 32n));
  }
}
