import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const positive = z.int().min(1);
const textConfigSchema = z.looseObject({
  num_hidden_layers: positive,
  num_attention_heads: positive,
  num_key_value_heads: positive.nullish(),
  hidden_size: positive,
  head_dim: positive.nullish(),
  /** Multi-head latent attention: one latent and one rotary part instead of keys and values. */
  kv_lora_rank: positive.nullish(),
  qk_rope_head_dim: positive.nullish(),
  torch_dtype: z.string().nullish(),
  dtype: z.string().nullish(),
});
/** Models with images keep the language model's part under `text_config`. */
const configSchema = z.union([textConfigSchema, z.object({ text_config: textConfigSchema })]);

const DTYPE_BYTES: Readonly<Record<string, number>> = {
  float32: 4,
  float16: 2,
  half: 2,
  bfloat16: 2,
  float8_e4m3fn: 1,
};

/**
 * Bytes that one token occupies in the KV cache over all layers: layers × KV heads × head size × 2 × bytes of the data type; for
 * latent attention layers × (latent rank + rotary size) × bytes. Undefined for a config that does not tell.
 */
export function kvBytesPerToken(config: unknown, cacheDtype: string): number | undefined {
  const parsed = configSchema.safeParse(config);
  if (!parsed.success) return undefined;
  const text = 'text_config' in parsed.data ? parsed.data.text_config : parsed.data;
  const shape = textConfigSchema.parse(text);
  const bytes = cacheDtype.startsWith('fp8')
    ? 1
    : (DTYPE_BYTES[cacheDtype] ?? DTYPE_BYTES[shape.dtype ?? shape.torch_dtype ?? 'bfloat16'] ?? 2);
  if (typeof shape.kv_lora_rank === 'number') {
    return shape.num_hidden_layers * (shape.kv_lora_rank + (shape.qk_rope_head_dim ?? 0)) * bytes;
  }
  const headDim = shape.head_dim ?? Math.floor(shape.hidden_size / shape.num_attention_heads);
  const heads = shape.num_key_value_heads ?? shape.num_attention_heads;
  return shape.num_hidden_layers * heads * headDim * 2 * bytes;
}

/** The parsed config.json of a model's folder; undefined for names on the hub and unreadable files. */
export async function readModelConfig(modelPath: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(join(modelPath, 'config.json'), 'utf8'));
  } catch {
    return undefined;
  }
}
