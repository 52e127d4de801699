import { z } from 'zod';
import { VllmError } from './errors.ts';
import { readSamples } from './prometheus-text.ts';
import type { VllmHttp } from './vllm-http.ts';

/** What a running vLLM says of itself. */
export interface EngineFacts {
  version: string;
  /** The engine's own name of the base model. */
  servedName: string;
  /** Folder or name of the model that was loaded. */
  modelPath: string;
  contextTokens: number;
  blockSize: number;
  /** Blocks of one rank. */
  kvBlocks: number;
  dpRanks: number;
  cacheDtype: string;
  kvLayout: string;
  hasPrefixCaching: boolean;
  loras: string[];
}

const modelsSchema = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      root: z.string().nullish(),
      parent: z.string().nullish(),
      max_model_len: z.int().min(1).nullish(),
    }),
  ),
});
const versionSchema = z.object({ version: z.string() });
const CACHE_CONFIG = 'vllm:cache_config_info';

/** Reads `/version`, `/v1/models` and `/metrics`. Rejects with VllmError when one of them is missing or odd. */
export async function readEngineFacts(
  http: VllmHttp,
  model: string | undefined,
): Promise<EngineFacts> {
  const [{ version }, models, metrics] = await Promise.all([
    http.json('/version', versionSchema),
    http.json('/v1/models', modelsSchema),
    http.exchange('GET', '/metrics'),
  ]);
  const bases = models.data.filter((each) => each.parent === null || each.parent === undefined);
  const base = bases.find((each) => each.id === model) ?? bases[0];
  if (base === undefined) throw new VllmError('VLLM_ANSWER', `${http.url} serves no model`);
  const configs = readSamples(metrics.text, CACHE_CONFIG);
  const labels = configs[0]?.labels ?? new Map<string, string>();
  return {
    version,
    servedName: base.id,
    modelPath: base.root ?? base.id,
    contextTokens: need(base.max_model_len ?? undefined, http, 'max_model_len in /v1/models'),
    blockSize: need(toInt(labels.get('block_size')), http, `block_size in ${CACHE_CONFIG}`),
    kvBlocks: need(toInt(labels.get('num_gpu_blocks')), http, `num_gpu_blocks in ${CACHE_CONFIG}`),
    dpRanks: Math.max(1, configs.length),
    cacheDtype: labels.get('cache_dtype') ?? 'auto',
    kvLayout: labels.get('kv_cache_layout') ?? 'None',
    hasPrefixCaching: labels.get('enable_prefix_caching') !== 'False',
    loras: models.data.filter((each) => !bases.includes(each)).map((each) => each.id),
  };
}

/** Names of the adapters that are loaded now. */
export async function readLoras(http: VllmHttp): Promise<string[]> {
  const { data } = await http.json('/v1/models', modelsSchema);
  return data.filter((each) => typeof each.parent === 'string').map((each) => each.id);
}

const KNOWN_MINORS = { first: 10, last: 33 };

/** A sentence when the version is none of those that this adapter knows; the engine is used all the same. */
export function unknownVersion(version: string): string | undefined {
  const minor = minorOf(version);
  if (minor !== undefined && minor >= KNOWN_MINORS.first && minor <= KNOWN_MINORS.last) {
    return undefined;
  }
  return `vLLM ${version} is outside 0.${KNOWN_MINORS.first} to 0.${KNOWN_MINORS.last}, which this adapter knows; going on`;
}

/** The minor number of 0.x; undefined for others. */
export function minorOf(version: string): number | undefined {
  const match = /^v?0\.(\d+)/.exec(version);
  return match === null ? undefined : Number(match[1]);
}

function need(value: number | undefined, http: VllmHttp, what: string): number {
  if (value !== undefined && value >= 1) return value;
  throw new VllmError('VLLM_ANSWER', `${http.url} does not tell ${what}`);
}

function toInt(text: string | undefined): number | undefined {
  const value = Number(text);
  return Number.isInteger(value) ? value : undefined;
}
