import { add64 } from './arithmetic.ts';
import { xxh3 } from './xxh3.ts';

/** Seed of every sequence hash, and of local hashes without LoRA and salt. */
export const BASE_SEED = 1337n;
const LORA_SEED = 0n;
const SALT_SEED = 1n;

/** What, beside its tokens, makes a block reusable: the adapter it was computed with and the caller's cache namespace. */
export interface CacheIdentity {
  lora?: string | undefined;
  cacheSalt?: string | undefined;
}

/**
 * The seed of local block hashes: 1337 + XXH3(lora, seed 0) + XXH3(salt, seed 1), wrapping at 64 bits; an empty string is the same
 * as none. LoRA and salt are hashed under different seeds, so equal names do not collide. Blocks of different identities differ
 * from the first block on.
 */
export function hashSeed(identity: CacheIdentity = {}): bigint {
  const encoder = new TextEncoder();
  let seed = BASE_SEED;
  if (identity.lora) seed = add64(seed, xxh3(encoder.encode(identity.lora), LORA_SEED));
  if (identity.cacheSalt) seed = add64(seed, xxh3(encoder.encode(identity.cacheSalt), SALT_SEED));
  return seed;
}
