export { createMockEngine, type MockEngineOptions } from './mock-engine.ts';
export type * from './port.ts';
