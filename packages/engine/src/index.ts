export { createMockEngine, type MockEngineOptions } from './mock-engine.ts';
export type * from './port.ts';
export {
  findLeftovers,
  type GpuFacts,
  type HostFacts,
  type HostFinding,
  type HostFindingKind,
  judgeHost,
  type ProcessFact,
} from './vllm/host-checks.ts';
export { gatherHostFacts, type HostQuestion } from './vllm/host-facts.ts';
export {
  VLLM_PHASES,
  type VllmAttach,
  type VllmEngineOptions,
  type VllmPhase,
  type VllmProgress,
  type VllmSpawn,
  type VllmTransfer,
} from './vllm/options.ts';
