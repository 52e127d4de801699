export { createMocker } from './mocker.ts';
export { PROFILES, profileByName } from './profiles.ts';
export type * from './types.ts';
