import { assert } from '@busbar/base';
import { createMockEngine } from '@busbar/engine';
import { DEFAULT_KV_BYTES_PER_TOKEN, profileByName } from '@busbar/mocker';
import { limit } from '@busbar/protocol';
import { type ServiceContext, ServiceError } from '@busbar/service';
import { loadTokenizer } from '@busbar/tokenizer';
import type { WorkerConfig } from '../config.ts';
import { createCard } from './card.ts';
import { readModelFiles } from './model-files.ts';
import type { EngineSetup } from './port.ts';
import { createScript } from './script.ts';
import { transferAddress } from './transfer-address.ts';

const MODEL = 'busbar-mock';
const BLOCK_SIZE = 16;
const CONTEXT_TOKENS = 32_768;
const STOP_MS = 3_000;

/** The mock engine of a configuration. The tokenizer writes its script. */
export async function setUpMock(
  context: ServiceContext,
  config: WorkerConfig,
): Promise<EngineSetup> {
  const files = config.modelPath === undefined ? undefined : await readModelFiles(config.modelPath);
  const tokenizer = await loadTokenizer(files === undefined ? {} : { path: files.path });
  const script = await createScript(tokenizer);
  const eosTokenIds = [...tokenizer.eosTokenIds];
  await tokenizer.close();
  const profile = profileByName(config.profile);
  assert(profile !== undefined, 'the configuration admits known profiles only');
  const { kvBytesPerToken = DEFAULT_KV_BYTES_PER_TOKEN, blockSize = BLOCK_SIZE } = config;
  if (kvBytesPerToken * blockSize > limit('kvBlockBytes')) {
    const message = `BUSBAR_BLOCK_SIZE ${blockSize} and BUSBAR_KV_BYTES_PER_TOKEN ${kvBytesPerToken} make blocks above 1 GiB.`;
    throw new ServiceError('SERVICE_CONFIG', message);
  }
  const engine = createMockEngine({
    model: config.model ?? MODEL,
    role: context.role === 'prefill' ? 'prefill' : 'decode',
    emitKvEvents: config.kvEvents,
    clock: context.clock,
    kvBytesPerToken,
    transfer: transferAddress(config),
    mocker: {
      blockSize,
      kvBlocks: config.kvBlocks,
      contextTokens: config.contextTokens ?? files?.contextTokens ?? CONTEXT_TOKENS,
      profile,
      speed: config.mockSpeed,
      script,
      eosTokenIds,
    },
  });
  return {
    engine,
    describe: (info) => Promise.resolve(createCard(context, info, files, eosTokenIds)),
    stopMs: STOP_MS,
    needsProbeServer: false,
  };
}
