import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isProcessId } from '@busbar/protocol';
import { type PlanInput, planProcesses } from './plan.ts';

const input: PlanInput = {
  options: {
    engine: 'mock',
    workers: [
      { kvBlocks: 926, speed: 1 },
      { kvBlocks: 1693, speed: 0.5 },
    ],
    routers: 2,
    frontends: 2,
    model: 'm',
    modelPath: '/models/m',
    profile: 'instant',
    blockSize: 32,
    policy: 'kv',
    kvEvents: false,
    port: 9000,
    host: '127.0.0.1',
    contextTokens: 4096,
    isDetached: false,
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
