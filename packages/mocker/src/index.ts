export { createMocker } from './mocker.ts';
export { DEFAULT_KV_BYTES_PER_TOKEN, PROFILES, profileByName } from './profiles.ts';
export type * from './types.ts';
