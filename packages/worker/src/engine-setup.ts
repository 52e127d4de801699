import { assert } from '@busbar/base';
import { createMockEngine, type Engine } from '@busbar/engine';
import { profileByName } from '@busbar/mocker';
import { type ModelCard, PROTOCOL_VERSION } from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import { loadTokenizer } from '@busbar/tokenizer';
import type { WorkerConfig } from './config.ts';
import { readModelFiles } from './model-files.ts';
import { createScript } from './script.ts';

const DEFAULT_CONTEXT_TOKENS = 32_768;

/** Builds the engine of the configuration and the card of its model. The tokenizer is only needed to write the mock's script. */
export async function setUpEngine(
  context: ServiceContext,
  config: WorkerConfig,
): Promise<{ engine: Engine; card: ModelCard }> {
  const files = config.modelPath === undefined ? undefined : await readModelFiles(config.modelPath);
  const tokenizer = await loadTokenizer(files === undefined ? {} : { path: files.path });
  const script = await createScript(tokenizer);
  const eosTokenIds = [...tokenizer.eosTokenIds];
  await tokenizer.close();
  const profile = profileByName(config.profile);
  assert(profile !== undefined, 'the configuration admits known profiles only');
  const contextTokens = config.contextTokens ?? files?.contextTokens ?? DEFAULT_CONTEXT_TOKENS;
  const engine = createMockEngine({
    model: config.model,
    role: context.role === 'prefill' ? 'prefill' : 'decode',
    emitKvEvents: config.kvEvents,
    clock: context.clock,
    mocker: {
      blockSize: config.blockSize,
      kvBlocks: config.kvBlocks,
      contextTokens,
      profile,
      speed: config.mockSpeed,
      script,
      eosTokenIds,
    },
  });
  const card: ModelCard = {
    protocol: PROTOCOL_VERSION,
    name: config.model,
    blockSize: config.blockSize,
    contextTokens: Math.min(contextTokens, config.kvBlocks * config.blockSize),
    eosTokenIds,
    createdAt: new Date(context.clock.wallMs()).toISOString(),
    ...(files === undefined
      ? {}
      : { tokenizerPath: files.path, tokenizerDigest: files.tokenizerDigest }),
  };
  return { engine, card };
}
