import type { KvIndex } from './types.ts';

/** The index as plainly as it can be said, slow and large: what `createKvIndex` is tested against. */
export function createReferenceKvIndex(): KvIndex {
  return new ReferenceKvIndex();
}

class ReferenceKvIndex implements KvIndex {
  readonly #ownersByBlock = new Map<bigint, Set<number>>();

  store(owner: number, hashes: Uint32Array): void {
    for (const block of blocksIn(hashes)) {
      const owners = this.#ownersByBlock.get(block) ?? new Set();
      this.#ownersByBlock.set(block, owners.add(owner));
    }
  }

  remove(owner: number, hashes: Uint32Array): void {
    for (const block of blocksIn(hashes)) this.#removeBlock(owner, block);
  }

  clear(owner: number): void {
    for (const block of this.#ownersByBlock.keys()) this.#removeBlock(owner, block);
  }

  has(owner: number, low: number, high: number): boolean {
    return this.#ownersByBlock.get(blockOf(low, high))?.has(owner) ?? false;
  }

  match(hashes: Uint32Array, overlaps: Uint32Array): void {
    const blocks = blocksIn(hashes);
    for (let owner = 0; owner < overlaps.length; owner++) {
      const hole = blocks.findIndex((block) => !this.#ownersByBlock.get(block)?.has(owner));
      overlaps[owner] = hole === -1 ? blocks.length : hole;
    }
  }

  blocksOf(owner: number): number {
    return this.#heldBy(owner).length;
  }

  dump(owner: number): Uint32Array {
    const words = this.#heldBy(owner).flatMap((block) => [
      Number(BigInt.asUintN(32, block)),
      Number(block >> 32n),
    ]);
    return Uint32Array.from(words);
  }

  get blocks(): number {
    return this.#ownersByBlock.size;
  }

  get capacity(): number {
    return this.#ownersByBlock.size;
  }

  get bytes(): number {
    return 0;
  }

  #heldBy(owner: number): bigint[] {
    return [...this.#ownersByBlock]
      .filter(([, owners]) => owners.has(owner))
      .map(([block]) => block);
  }

  #removeBlock(owner: number, block: bigint): void {
    const owners = this.#ownersByBlock.get(block);
    owners?.delete(owner);
    if (owners?.size === 0) this.#ownersByBlock.delete(block);
  }
}

function blocksIn(hashes: Uint32Array): bigint[] {
  return Array.from({ length: hashes.length / 2 }, (_, i) =>
    blockOf(hashes[2 * i]!, hashes[2 * i + 1]!),
  );
}

function blockOf(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
