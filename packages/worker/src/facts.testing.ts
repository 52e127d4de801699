import {
  encodeInstance,
  PROTOCOL_VERSION,
  type TransferParams,
  type WorkerInfo,
} from '@busbar/protocol';

/** What the tests of workers and of the links between them share. */

/** A worker whose engine the test plays; without a way for KV unless `changes` say one. */
export function infoOf(role: WorkerInfo['role'], changes: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    model: 'm',
    role,
    engine: 'scripted',
    engineVersion: '1',
    blockSize: 16,
    kvBlocks: 64,
    dpRanks: 1,
    contextTokens: 512,
    maxRunning: 8,
    kvEvents: false,
    prefillTokensPerMs: 1,
    decodeStepMs: 1,
    ...changes,
  };
}

/** Parameters as an engine with NixlConnector gives them, for one block. */
export function nixlTransfer(more: Record<string, unknown> = {}): TransferParams {
  return {
    protocol: 'nixl',
    params: {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1]],
      remote_engine_id: 'e',
      remote_request_id: 'r',
      remote_host: 'h',
      remote_port: 1,
      ...more,
    },
  };
}

/** The lease of a worker that is ready. */
export function leaseOf(id: string, worker: WorkerInfo, epoch = 1): Uint8Array {
  return encodeInstance({
    protocol: PROTOCOL_VERSION,
    role: worker.role,
    id,
    epoch,
    pid: 1,
    host: 'h',
    startedAt: '',
    state: 'ready',
    worker,
  });
}
