import assert from 'node:assert/strict';
import { test } from 'node:test';
import { kvBytesPerToken } from './kv-bytes.ts';

const QWEN3_0_6B = {
  num_hidden_layers: 28,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  hidden_size: 1024,
  head_dim: 128,
  torch_dtype: 'bfloat16',
};

test('layers x KV heads x head size x 2 x bytes: 114,688 for Qwen3-0.6B', () => {
  assert.equal(kvBytesPerToken(QWEN3_0_6B, 'auto'), 114_688);
  assert.equal(kvBytesPerToken(QWEN3_0_6B, 'fp8_e4m3'), 57_344);
});

test('other shapes: no grouped heads, latent attention, a language model within another', () => {
  const { num_key_value_heads: _, head_dim: __, ...plain } = QWEN3_0_6B;
  assert.equal(kvBytesPerToken(plain, 'auto'), 28 * 16 * 64 * 2 * 2);
  const latent = { ...QWEN3_0_6B, kv_lora_rank: 512, qk_rope_head_dim: 64 };
  assert.equal(kvBytesPerToken(latent, 'auto'), 28 * 576 * 2);
  assert.equal(kvBytesPerToken({ text_config: QWEN3_0_6B }, 'auto'), 114_688);
});

test('what does not tell its size is unknown', () => {
  assert.equal(kvBytesPerToken(undefined, 'auto'), undefined);
  assert.equal(kvBytesPerToken({ num_hidden_layers: 2 }, 'auto'), undefined);
});
