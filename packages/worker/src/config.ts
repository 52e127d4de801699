import { VLLM_DEFAULTS } from '@busbar/engine';
import { MOCK_DEFAULTS, PROFILE_NAMES } from '@busbar/mocker';
import { type BaseConfig, field } from '@busbar/service';
import { z } from 'zod';

const [firstProfile = '', ...otherProfiles] = PROFILE_NAMES;

/** Of any engine. */
const commonFields = {
  model: field
    .text(128)
    .optional()
    .describe(
      'Name under which the model is served; absent takes busbar-mock, or with vLLM the name of the folder or of the attached engine',
    ),
  modelPath: field
    .text()
    .optional()
    .describe(
      'Folder with tokenizer.json, tokenizer_config.json and config.json, for vLLM also a name on the hub; absent takes the built-in tokenizer',
    ),
  engine: field.choice(['mock', 'vllm']).default('mock').describe('Engine that generates'),
  blockSize: field
    .int(1, 4096)
    .optional()
    .describe("Tokens of one KV block; absent takes 16, or with vLLM the engine's choice"),
  contextTokens: field
    .int(2, 10_000_000)
    .optional()
    .describe('Longest context in tokens; absent takes what the model says'),
  kvEvents: field
    .flag()
    .default(true)
    .describe('Whether the engine says what enters and leaves its KV cache'),
  kvBytesPerToken: field
    .int(1, 1_000_000_000)
    .optional()
    .describe(
      'KV of one token over all layers; absent takes 114688 (Qwen3-0.6B), or with vLLM what config.json says',
    ),
  transferHost: field
    .text(255)
    .default('127.0.0.1')
    .describe(
      'Address on which a prefill worker serves KV and probes; workers on other hosts need one that they reach, or 0.0.0.0',
    ),
  transferPort: field.int(0, 65_535).default(0).describe('Its port; 0 takes a free one'),
};

const mockFields = {
  profile: field
    .choice([firstProfile, ...otherProfiles])
    .default(MOCK_DEFAULTS.profile)
    .describe('Timing of the mock engine'),
  kvBlocks: field
    .int(1, 100_000_000)
    .default(MOCK_DEFAULTS.kvBlocks)
    .describe('Blocks of the KV cache of the mock engine'),
  mockSpeed: field
    .number(0.001, 1000)
    .default(MOCK_DEFAULTS.speed)
    .describe('Speed of the mock engine against its profile'),
};

const vllmFields = {
  vllmCommand: field
    .text()
    .default(VLLM_DEFAULTS.command)
    .describe(
      'What is run with "serve": a program, perhaps with a wrapper before it (nice -n 10 vllm), quoted as in a shell; nothing is expanded',
    ),
  vllmArgs: field
    .text()
    .optional()
    .describe('More arguments of "vllm serve", quoted as in a shell; nothing is expanded'),
  vllmPort: field.int(0, 65_535).default(0).describe("Port of vLLM's API; 0 takes a free one"),
  vllmStartSeconds: field
    .int(10, 86_400)
    .default(VLLM_DEFAULTS.startSeconds)
    .describe('How long vLLM may take to be ready'),
  vllmUrl: field
    .matching(/^https?:\/\/[^\s,]+$/, 'a URL such as http://127.0.0.1:8000')
    .optional()
    .describe('A vLLM that runs already, to be used instead of starting one'),
  vllmApiKey: field
    .text()
    .optional()
    .meta({ isSecret: true })
    .describe('API key of that vLLM; it stands in no log'),
  vllmKvEvents: field
    .matching(
      /^(tcp|ipc):\/\/[^\s,|]+(\|(tcp|ipc):\/\/[^\s,|]+)?(,(tcp|ipc):\/\/[^\s,|]+(\|(tcp|ipc):\/\/[^\s,|]+)?)*$/,
      'tcp://host:port for each rank, separated by commas, each perhaps with |tcp://host:port of its replay',
    )
    .optional()
    .describe(
      'Where that vLLM publishes KV events, when it does not say so itself: tcp://host:port of each rank, with |tcp://host:port for its replay',
    ),
  kvConnector: field
    .choice(['nixl', 'mooncake', 'none'])
    .default('none')
    .describe('How vLLM exchanges KV with other workers'),
  kvConnectorPort: field
    .int(0, 65_535)
    .default(0)
    .describe("Port of the connector's side channel or bootstrap server; 0 takes a free one"),
  kvBufferDevice: field
    .choice(['cuda', 'cpu'])
    .default('cuda')
    .describe('Memory from which NIXL moves KV'),
  kvConnectorExtra: field
    .text()
    .optional()
    .describe(
      'More of kv_connector_extra_config, as JSON: {"backends": ["LIBFABRIC"]}, {"num_threads": 1}',
    ),
};

/** Configuration of a worker besides `baseFields`; `BUSBAR_` and the field's name in capitals is its environment variable. */
export const workerFields = { ...commonFields, ...mockFields, ...vllmFields };

const workerFieldsSchema = z.object(workerFields);
export type WorkerConfig = BaseConfig & z.infer<typeof workerFieldsSchema>;
