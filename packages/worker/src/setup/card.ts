import { type ModelCard, PROTOCOL_VERSION, type WorkerInfo } from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import type { ModelFiles } from './model-files.ts';

/** The card of the model that a running engine serves. Without files it takes the built-in tokenizer. */
export function createCard(
  context: ServiceContext,
  info: WorkerInfo,
  files: ModelFiles | undefined,
  eosTokenIds: number[],
): ModelCard {
  return {
    protocol: PROTOCOL_VERSION,
    name: info.model,
    blockSize: info.blockSize,
    contextTokens: Math.min(info.contextTokens, info.kvBlocks * info.blockSize),
    eosTokenIds,
    createdAt: new Date(context.clock.wallMs()).toISOString(),
    ...(files === undefined
      ? {}
      : { tokenizerPath: files.path, tokenizerDigest: files.tokenizerDigest }),
  };
}
