export { createMockEngine, type MockEngineOptions } from './mock-engine.ts';
export { Pacer } from './pacer.ts';
export type * from './port.ts';
