export { createMocker } from './mocker.ts';
export {
  DEFAULT_KV_BYTES_PER_TOKEN,
  MOCK_DEFAULTS,
  PROFILE_NAMES,
  PROFILES,
  profileByName,
} from './profiles.ts';
export type * from './types.ts';
