import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isProcessId } from '@busbar/protocol';
import { type PlanInput, planProcesses } from './plan.ts';

const input: PlanInput = {
  options: {
    engine: 'mock',
    vllm: undefined,
    decode: [
      { engine: 'mock', kvBlocks: 926, speed: 1, profile: 'instant' },
      { engine: 'mock', kvBlocks: 1693, speed: 0.5, profile: 'instant' },
    ],
    prefill: [{ engine: 'mock', kvBlocks: 100, speed: 4, profile: 'seed-8gb' }],
    routers: 2,
    frontends: 2,
    model: 'm',
    modelPath: '/models/m',
    blockSize: 32,
    kvBytesPerToken: undefined,
    disaggregation: { mode: 'threshold', thresholdTokens: 500, isStrict: true },
    policy: 'kv',
    kvEvents: false,
    port: 9000,
    host: '127.0.0.1',
    contextTokens: 4096,
    isDetached: false,
    scheduling: 'batch',
  },
  namespace: 'ns',
  natsUrl: 'nats://127.0.0.1:1',
  env: {
    PATH: '/bin',
    BUSBAR_LOG_LEVEL: 'debug',
    BUSBAR_EVENT_GRACE_MS: '100',
    BUSBAR_STATE_DIR: '/x',
    BUSBAR_POLICY: 'random',
  },
  root: '/root',
  stateDir: '/state',
  node: '/node',
  suffix: 'ab12',
};

test('routers first, then workers, then frontends, each with its own id', () => {
  const specs = planProcesses(input);
  assert.deepEqual(
    specs.map((spec) => spec.id),
    [
      'router-1-ab12',
      'router-2-ab12',
      'prefill-1-ab12',
      'decode-1-ab12',
      'decode-2-ab12',
      'frontend-1-ab12',
      'frontend-2-ab12',
    ],
  );
  for (const spec of specs) {
    assert.ok(isProcessId(spec.id));
    assert.equal(spec.env['BUSBAR_ID'], spec.id);
    assert.equal(spec.env['BUSBAR_NAMESPACE'], 'ns');
    assert.equal(spec.env['BUSBAR_NATS_URL'], 'nats://127.0.0.1:1');
    assert.equal(spec.env['BUSBAR_LOG_LEVEL'], 'debug');
    assert.equal(spec.env['PATH'], '/bin');
    assert.equal(spec.env['BUSBAR_STATE_DIR'], undefined, 'no service knows it');
  }
});

test('frontends alone keep to two heaps, unless the person wants more', () => {
  const arenas = (env: PlanInput['env']) =>
    planProcesses({ ...input, env }).map((spec) => `${spec.role} ${spec.env['MALLOC_ARENA_MAX']}`);
  const count = { frontend: 2, other: 5 };
  const plain = arenas({});
  assert.equal(plain.filter((text) => text === 'frontend 2').length, count.frontend);
  assert.equal(plain.filter((text) => text.endsWith(' undefined')).length, count.other);
  assert.deepEqual(arenas({ MALLOC_ARENA_MAX: '' }).at(-1), 'frontend 2', 'empty is as none');
  assert.deepEqual(
    new Set(arenas({ MALLOC_ARENA_MAX: '4' }).map((t) => t.split(' ')[1])),
    new Set(['4']),
  );
});

test('a variable reaches only the roles that read it, and flags win over variables', () => {
  for (const spec of planProcesses(input)) {
    const isRouter = spec.role === 'router';
    assert.equal(spec.env['BUSBAR_EVENT_GRACE_MS'], isRouter ? '100' : undefined, spec.id);
    assert.equal(spec.env['BUSBAR_POLICY'], isRouter ? 'kv' : undefined, spec.id);
  }
});

test('workers differ where the lists say so', () => {
  const workers = planProcesses(input).filter((spec) => spec.role === 'decode');
  assert.deepEqual(
    workers.map(({ env }) => [env['BUSBAR_KV_BLOCKS'], env['BUSBAR_MOCK_SPEED']]),
    [
      ['926', '1'],
      ['1693', '0.5'],
    ],
  );
  assert.equal(workers[0]?.env['BUSBAR_KV_EVENTS'], 'false');
  assert.equal(workers[0]?.env['BUSBAR_MODEL_PATH'], '/models/m');
  assert.equal(workers[0]?.env['BUSBAR_CONTEXT_TOKENS'], '4096');
});

test('prefill workers have their own values, routers the rule for both', () => {
  const [prefill] = planProcesses(input).filter((spec) => spec.role === 'prefill');
  assert.equal(prefill?.env['BUSBAR_PROFILE'], 'seed-8gb');
  assert.equal(prefill?.env['BUSBAR_MOCK_SPEED'], '4');
  assert.ok(prefill?.args.at(-1)?.endsWith('services/prefill/src/main.ts'));
  assert.equal('BUSBAR_VLLM_ARGS' in (prefill?.env ?? {}), false);
  const [router] = planProcesses(input).filter((spec) => spec.role === 'router');
  assert.equal(router?.env['BUSBAR_DISAGGREGATION'], 'threshold');
  assert.equal(router?.env['BUSBAR_DISAGGREGATION_THRESHOLD'], '500');
  assert.equal(router?.env['BUSBAR_DISAGGREGATION_STRICT'], 'true');
});

test('a vLLM worker gets its URL, its arguments and its connector, and nothing of the mock', () => {
  const { options } = input;
  const vllm = {
    isStarted: true,
    command: undefined,
    args: '--enforce-eager',
    kvConnector: 'nixl',
  } as const;
  const decode = [{ engine: 'vllm', url: 'http://a:1', gpus: '0,1' }] as const;
  const specs = planProcesses({
    ...input,
    options: {
      ...options,
      engine: 'vllm',
      vllm,
      decode: [...decode],
      prefill: [],
      blockSize: undefined,
    },
  });
  const env = specs.find((spec) => spec.role === 'decode')?.env ?? {};
  assert.equal(env['BUSBAR_ENGINE'], 'vllm');
  assert.equal(env['BUSBAR_VLLM_URL'], 'http://a:1');
  assert.equal(env['BUSBAR_VLLM_ARGS'], '--enforce-eager');
  assert.equal(env['CUDA_VISIBLE_DEVICES'], '0,1');
  assert.equal(env['BUSBAR_KV_CONNECTOR'], 'nixl');
  for (const name of [
    'BUSBAR_PROFILE',
    'BUSBAR_KV_BLOCKS',
    'BUSBAR_BLOCK_SIZE',
    'BUSBAR_VLLM_COMMAND',
  ]) {
    assert.equal(name in env, false, name);
  }
});

test('only several frontends share a port', () => {
  const shared = planProcesses(input).filter((spec) => spec.role === 'frontend');
  assert.deepEqual(
    shared.map((spec) => spec.env['BUSBAR_HTTP_REUSE_PORT']),
    ['true', 'true'],
  );
  const [one] = planProcesses({ ...input, options: { ...input.options, frontends: 1 } }).filter(
    (spec) => spec.role === 'frontend',
  );
  assert.equal(one?.env['BUSBAR_HTTP_REUSE_PORT'], 'false');
  assert.equal(one?.port, 9000);
});
