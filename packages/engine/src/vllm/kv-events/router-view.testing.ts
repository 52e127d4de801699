// What a router would know that hears the changes. Only tests import it.
import { hashBlocks, hashSeed } from '@busbar/blocks';
import type { KvChanges } from '../../port.ts';

export class RouterView {
  readonly known = new Map<string, Set<bigint>>();
  resets = 0;
  clears = 0;

  readonly sink = {
    onKv: ({ dpRank, tier, changes }: KvChanges): void => {
      const key = `${dpRank}.${tier}`;
      const own = this.known.get(key) ?? new Set();
      this.known.set(key, own);
      for (const change of changes) {
        if (change.kind === 'cleared') {
          this.clears++;
          own.clear();
        } else {
          for (const hash of toBigInts(change.hashes)) {
            if (change.kind === 'stored') own.add(hash);
            else own.delete(hash);
          }
        }
      }
    },
    onCacheReset: (): void => {
      this.resets++;
      this.known.clear();
    },
  };

  device(dpRank = 0): Set<bigint> {
    return this.known.get(`${dpRank}.device`) ?? new Set();
  }
}

export function toBigInts(words: Uint32Array): bigint[] {
  return Array.from({ length: words.length / 2 }, (_, i) => {
    return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
  });
}

/** Our hashes of all blocks of the chains of `storedEvent`. */
export function chains(...paths: readonly number[][]): Set<bigint> {
  const hashes = paths.flatMap((path) => {
    const tokens = Uint32Array.from(path.flatMap((hash) => [hash, hash, hash, hash]));
    return toBigInts(hashBlocks(tokens, 4, hashSeed()));
  });
  return new Set(hashes);
}
