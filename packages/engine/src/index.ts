export {
  createMockEngine,
  DEFAULT_KV_BYTES_PER_TOKEN,
  type MockEngineOptions,
} from './mock-engine.ts';
export type * from './port.ts';
export { TRANSFER_ERRORS, TransferError, type TransferErrorCode } from './transfer/errors.ts';
export { probeLink } from './transfer/link-probe.ts';
export { createTransferServer } from './transfer/transfer-server.ts';
export type * from './transfer/types.ts';
export { MAX_PROBE_BYTES } from './transfer/wire.ts';
export { VLLM_ERRORS, VllmError, type VllmErrorCode } from './vllm/errors.ts';
export type * from './vllm/host-checks.ts';
export { findLeftovers, judgeHost } from './vllm/host-checks.ts';
export { gatherHostFacts, type HostQuestion } from './vllm/host-facts.ts';
export type * from './vllm/options.ts';
export { VLLM_PHASES } from './vllm/options.ts';
export { createVllmEngine } from './vllm/vllm-engine.ts';
