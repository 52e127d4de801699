import type { EngineRequest } from '@busbar/engine';
import type { WorkHeader } from '@busbar/protocol';

/** What the engine is asked for under `key`. A prefill leg makes one token, whatever the whole request is to make. */
export function engineRequest(key: number, header: WorkHeader, tokens: Uint32Array): EngineRequest {
  const { cacheSalt, lora, stageKv, kvSource } = header;
  return {
    key,
    tokens,
    maxTokens: stageKv === undefined ? header.maxTokens : 1,
    minTokens: stageKv === undefined ? (header.minTokens ?? 0) : 0,
    ignoreEos: header.ignoreEos ?? false,
    stopTokenIds: header.stopTokenIds ?? [],
    sampling: header.sampling,
    ...(cacheSalt === undefined ? {} : { cacheSalt }),
    ...(lora === undefined ? {} : { lora }),
    ...(stageKv === undefined ? {} : { stageKv }),
    ...(kvSource === undefined ? {} : { kvSource }),
  };
}
