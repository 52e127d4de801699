import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { baseFields, loadConfig, ServiceError } from '@busbar/service';
import { createTestContext } from '@busbar/service/testing';
import { z } from 'zod';
import { workerFields } from '../config.ts';
import { readConnectorExtra } from './connector-extra.ts';
import { setUpEngine } from './engine-setup.ts';
import { findModelFolder } from './model-folder.ts';
import { unreachableHint } from './transfer-address.ts';
import { vllmOptions } from './vllm-setup.ts';

const schema = z.object({ ...baseFields, ...workerFields });
const configOf = (env: Record<string, string>) => loadConfig(schema, env).config;
const contextOf = (role: 'decode' | 'prefill' = 'decode') =>
  createTestContext(role, new MemoryNetwork().connect(), 'w1');

const refusesWith = (pattern: RegExp) => (error: unknown) =>
  error instanceof ServiceError && error.code === 'SERVICE_CONFIG' && pattern.test(error.message);

test('a model is a folder, or what the cache of the hub has of a name', async () => {
  const home = await mkdtemp(join(tmpdir(), 'busbar-hub-'));
  try {
    const model = join(home, 'hub', 'models--Org--Name-0.6B');
    await mkdir(join(model, 'snapshots', 'abc123'), { recursive: true });
    await mkdir(join(model, 'refs'));
    await writeFile(join(model, 'refs', 'main'), 'abc123\n');
    const env = { HF_HOME: home };
    assert.equal(await findModelFolder(home, {}), home);
    assert.equal(await findModelFolder('Org/Name-0.6B', env), join(model, 'snapshots', 'abc123'));
    assert.equal(await findModelFolder('Org/Other', env), undefined);
    assert.equal(await findModelFolder('Org/..', env), undefined);
    await writeFile(join(model, 'refs', 'main'), '../../..');
    assert.equal(await findModelFolder('Org/Name-0.6B', env), undefined);
  } finally {
    await rm(home, { recursive: true });
  }
});

test('a prefill worker without a connector is refused before its vLLM is started', () => {
  const config = configOf({ BUSBAR_MODEL_PATH: 'Org/Name' });
  assert.throws(
    () => vllmOptions(contextOf('prefill'), config, {}, undefined),
    refusesWith(/BUSBAR_KV_CONNECTOR none .*set nixl or mooncake/),
  );
});

test('a vLLM needs no more than a model; everything of it can be set', () => {
  const env = { PATH: '/bin', HF_HOME: '/models', BUSBAR_NATS_URL: 'nats://u:p@h:1' };
  const least = vllmOptions(
    contextOf(),
    configOf({ BUSBAR_MODEL_PATH: 'Org/Name' }),
    env,
    undefined,
  );
  assert.deepEqual(least.engine, {
    kind: 'spawn',
    command: ['vllm'],
    modelPath: 'Org/Name',
    host: '127.0.0.1',
    port: 0,
    args: [],
    env: { PATH: '/bin', HF_HOME: '/models' },
  });
  assert.deepEqual(
    [least.model, least.role, least.kvEvents, least.blockSize, least.transfer],
    ['Name', 'decode', true, undefined, undefined],
  );
  const whole = vllmOptions(
    contextOf('prefill'),
    configOf({
      BUSBAR_MODEL: 'm',
      BUSBAR_MODEL_PATH: '/models/x',
      BUSBAR_VLLM_COMMAND: 'python -m vllm.entrypoints.cli.main',
      BUSBAR_VLLM_ARGS: '--max-num-seqs 8 --rope \'{"a": 1}\'',
      BUSBAR_VLLM_PORT: '8100',
      BUSBAR_VLLM_START_SECONDS: '90',
      BUSBAR_KV_CONNECTOR: 'nixl',
      BUSBAR_KV_BUFFER_DEVICE: 'cpu',
      BUSBAR_KV_CONNECTOR_PORT: '5600',
      BUSBAR_KV_CONNECTOR_EXTRA: '{"backends": ["LIBFABRIC"], "num_threads": 1}',
      BUSBAR_TRANSFER_HOST: '10.0.0.7',
      BUSBAR_BLOCK_SIZE: '32',
      BUSBAR_CONTEXT_TOKENS: '1024',
    }),
    {},
    '/models/x',
  );
  assert.ok(whole.engine.kind === 'spawn');
  assert.deepEqual(whole.engine.command, ['python', '-m', 'vllm.entrypoints.cli.main']);
  assert.deepEqual(whole.engine.args, ['--max-num-seqs', '8', '--rope', '{"a": 1}']);
  assert.deepEqual(
    [whole.model, whole.role, whole.startTimeoutMs, whole.blockSize, whole.contextTokens],
    ['m', 'prefill', 90_000, 32, 1_024],
  );
  assert.deepEqual(
    [whole.transfer?.protocol, whole.transfer?.host, whole.transfer?.port],
    ['nixl', '10.0.0.7', 5_600],
  );
  assert.deepEqual(whole.transfer?.extraConfig, { backends: ['LIBFABRIC'], num_threads: 1 });
  for (const text of ['{', '[]', 'null', '7', '{"kv_lease_duration": 5}']) {
    assert.throws(() => readConnectorExtra(text), refusesWith(/^BUSBAR_KV_CONNECTOR_EXTRA /));
  }
});

test('an attached vLLM names its model itself; KV event addresses come in pairs', () => {
  const config = configOf({
    BUSBAR_VLLM_URL: 'http://gpu-1:8000/',
    BUSBAR_VLLM_API_KEY: 'key',
    BUSBAR_VLLM_KV_EVENTS: 'tcp://gpu-1:5557|tcp://gpu-1:5558,tcp://gpu-1:5567',
  });
  const options = vllmOptions(contextOf(), config, {}, undefined);
  assert.equal(options.model, undefined);
  assert.deepEqual(options.engine, {
    kind: 'attach',
    url: 'http://gpu-1:8000',
    apiKey: 'key',
    kvEventEndpoints: [
      { endpoint: 'tcp://gpu-1:5557', replayEndpoint: 'tcp://gpu-1:5558' },
      { endpoint: 'tcp://gpu-1:5567' },
    ],
  });
  for (const [name, value] of [
    ['BUSBAR_VLLM_KV_EVENTS', 'gpu-1:5557'],
    ['BUSBAR_VLLM_KV_EVENTS', 'tcp://a:1|tcp://b:2|tcp://c:3'],
    ['BUSBAR_VLLM_URL', 'gpu-1:8000'],
    ['BUSBAR_KV_CONNECTOR', 'tcp'],
  ] as const) {
    assert.throws(() => configOf({ [name]: value }), refusesWith(new RegExp(name)));
  }
});

test('a prefill worker that serves only its own host beside a NATS of another one is told so', () => {
  const hint = (natsUrl: string, transferHost: string) =>
    unreachableHint({ natsUrl, transferHost });
  assert.equal(hint('nats://127.0.0.1:4222,nats://localhost:4223', '127.0.0.1'), undefined);
  assert.equal(hint('nats://u:p@nats-1:4222', '0.0.0.0'), undefined);
  assert.match(hint('nats://u:p@nats-1:4222', '127.0.0.1') ?? '', /BUSBAR_TRANSFER_HOST/);
  assert.match(hint('nats://127.0.0.1:4222,tls://10.0.0.1', '::1') ?? '', /cannot fetch KV/);
});

test('what cannot be carried out is said before anything is started', async () => {
  const context = contextOf();
  const setUp = (env: Record<string, string>) => setUpEngine(context, configOf(env), {});
  await assert.rejects(setUp({ BUSBAR_ENGINE: 'vllm' }), refusesWith(/needs BUSBAR_MODEL_PATH/));
  await assert.rejects(
    setUp({ BUSBAR_ENGINE: 'vllm', BUSBAR_MODEL_PATH: tmpdir() }),
    refusesWith(/no readable tokenizer.json/),
  );
  await assert.rejects(
    setUp({ BUSBAR_KV_BYTES_PER_TOKEN: '1000000000' }),
    refusesWith(/blocks above 1 GiB/),
  );
});
