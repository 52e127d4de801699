export { BlockHasher, hashBlocks, localBlockHash, type ParentBlock } from './block-hasher.ts';
export { type CacheIdentity, hashSeed } from './seed.ts';
export { xxh3 } from './xxh3.ts';
