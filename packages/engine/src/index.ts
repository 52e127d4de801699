export {
  createMockEngine,
  DEFAULT_KV_BYTES_PER_TOKEN,
  type MockEngineOptions,
} from './mock-engine.ts';
export type * from './port.ts';
export type * from './transfer/types.ts';
