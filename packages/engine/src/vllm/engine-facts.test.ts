import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { minorOf, readEngineFacts, unknownVersion } from './engine-facts.ts';
import { startFake } from './engine-harness.testing.ts';
import { readSamples, sumOf } from './prometheus-text.ts';
import { VllmHttp } from './vllm-http.ts';

const METRICS = readFileSync(
  join(import.meta.dirname, '../../fixtures/vllm/http/metrics.txt'),
  'utf8',
);

test('recorded metrics: sizes of the cache and the time of the process', () => {
  const [config, ...more] = readSamples(METRICS, 'vllm:cache_config_info');
  assert.equal(more.length, 0);
  assert.equal(config?.labels.get('block_size'), '32');
  assert.equal(config?.labels.get('num_gpu_blocks'), '48');
  assert.equal(config?.value, 1);
  assert.equal(sumOf(METRICS, 'vllm:prompt_tokens_created'), 1.7959885618978806e9);
  assert.equal(sumOf(METRICS, 'vllm:prompt_tokens'), undefined);
});

test('labels with every character, ranks added up', () => {
  const text =
    '# TYPE m counter\nm{a="x\\"},\\n\\\\",engine="0"} 2\nm{engine="1"} 3 1700000000\nmm 9\n';
  assert.equal(sumOf(text, 'm'), 5);
  assert.equal(readSamples(text, 'm')[0]?.labels.get('a'), 'x"},\n\\');
  assert.equal(sumOf('m 4', 'm'), 4);
});

test('versions', () => {
  assert.equal(minorOf('0.32.0+cpu'), 32);
  assert.equal(minorOf('1.0.0'), undefined);
  assert.equal(unknownVersion('0.10.2'), undefined);
  assert.equal(unknownVersion('0.33.0'), undefined);
  for (const version of ['0.9.2', '0.34.0', '1.0.0', 'dev']) {
    assert.match(unknownVersion(version) ?? '', /going on/);
  }
});

test('a server that is no vLLM is told apart', async () => {
  const fake = await startFake();
  const facts = await readEngineFacts(new VllmHttp(fake.url), undefined);
  assert.equal(facts.servedName, 'tiny');
  assert.equal(facts.kvBlocks, 64);
  fake.blockSize = 0;
  await assert.rejects(
    readEngineFacts(new VllmHttp(fake.url), undefined),
    /does not tell block_size/,
  );
  assert.throws(() => new VllmHttp('ftp://x'), /is no address of a vLLM/);
});
