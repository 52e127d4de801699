export { createReferenceKvIndex } from './reference.ts';
export { createKvIndex } from './typed-kv-index.ts';
export type { KvIndex, KvIndexOptions } from './types.ts';
