import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VllmEngineOptions, VllmSpawn } from '../options.ts';
import { flagValue, type ServeFacts, serveCommand, serveEnv } from './serve-args.ts';

const SPAWN: VllmSpawn = {
  kind: 'spawn',
  command: ['vllm'],
  modelPath: '/models/m',
  host: '127.0.0.1',
  port: 0,
  args: [],
  env: { PATH: '/bin', VLLM_NO_USAGE_STATS: '0' },
};
const OPTIONS: VllmEngineOptions = {
  role: 'decode',
  model: 'm',
  engine: SPAWN,
  kvEvents: true,
  blockSize: 32,
  contextTokens: 1024,
  clock: { monotonicMs: () => 0, wallMs: () => 0 },
};
const FACTS: ServeFacts = {
  port: 8_101,
  version: '0.32.0+cpu',
  kvEventsConfig: { endpoint: 'tcp://127.0.0.1:5557' },
  sideChannelPort: 5_600,
  engineId: 'e',
};
const TRANSFER: NonNullable<VllmEngineOptions['transfer']> = {
  protocol: 'nixl',
  host: '10.0.0.1',
  port: 5_600,
  bufferDevice: 'cuda',
  leaseMs: 25_000,
};

test('the command line says where, what and how', () => {
  const expected = [
    'vllm serve /models/m --host 127.0.0.1 --port 8101 --enable-prompt-tokens-details',
    '--served-model-name m --block-size 32 --max-model-len 1024 --enable-scale-out',
    '--kv-events-config {"endpoint":"tcp://127.0.0.1:5557"}',
  ];
  assert.equal(serveCommand(OPTIONS, SPAWN, FACTS).join(' '), expected.join(' '));
});

test('versions without --enable-scale-out do not get it', () => {
  for (const version of ['0.29.1', undefined]) {
    assert.ok(!serveCommand(OPTIONS, SPAWN, { ...FACTS, version }).includes('--enable-scale-out'));
  }
});

test("the person's own arguments win, but not over what only Busbar can settle", () => {
  const args = ['--block-size=64', '--max-model-len', '99', '--dtype', 'half'];
  const command = serveCommand(OPTIONS, { ...SPAWN, args }, FACTS);
  assert.equal(command.filter((arg) => arg.startsWith('--block-size')).length, 1);
  assert.equal(flagValue(command, '--block-size'), '64');
  assert.equal(flagValue(command, '--max-model-len'), '99');
  const owned = { ...SPAWN, args: ['--kv-events-config', '{}'] };
  assert.throws(() => serveCommand(OPTIONS, owned, FACTS), /--kv-events-config is set by Busbar/);
});

test('flags are known in every spelling that vLLM takes', () => {
  const args = ['--block_size=64', '--max_model_len', '99', '-dp', '2', '--served_model_name=n'];
  const command = serveCommand(OPTIONS, { ...SPAWN, args }, FACTS);
  assert.ok(!command.includes('--block-size') && !command.includes('--served-model-name'));
  assert.equal(flagValue(args, '--max-model-len'), '99');
  assert.equal(flagValue(args, '--data-parallel-size'), '2');
  assert.equal(flagValue(args, '--block-size'), '64');
  for (const arg of [
    '--kv_transfer_config={}',
    '--kv-transfer-config.kv_role=kv_both',
    '--kv_events_config.topic',
    '--port=8000',
  ]) {
    const owned = { ...SPAWN, args: [arg] };
    assert.throws(() => serveCommand(OPTIONS, owned, FACTS), /is set by Busbar/, arg);
  }
  // One that the configuration names may be another outside of a container.
  const mapped = { ...SPAWN, port: 9_000, args: ['--port', '8000'] };
  assert.equal(flagValue(serveCommand(OPTIONS, mapped, FACTS), '--port'), '8000');
});

test('NIXL: both roles, own lease, side channel in the environment', () => {
  const options = { ...OPTIONS, transfer: TRANSFER };
  const config = flagValue(serveCommand(options, SPAWN, FACTS), '--kv-transfer-config');
  assert.deepEqual(JSON.parse(config ?? ''), {
    kv_connector: 'NixlConnector',
    kv_role: 'kv_both',
    engine_id: 'e',
    kv_buffer_device: 'cuda',
    kv_load_failure_policy: 'fail',
    kv_connector_extra_config: { kv_lease_duration: 25 },
  });
  const env = serveEnv(options, SPAWN, FACTS);
  assert.equal(env['VLLM_NIXL_SIDE_CHANNEL_HOST'], '10.0.0.1');
  assert.equal(env['VLLM_NIXL_SIDE_CHANNEL_PORT'], '5600');
});

test('Mooncake: its own port and time limit', () => {
  const transfer = { ...TRANSFER, protocol: 'mooncake' } as const;
  const env = serveEnv({ ...OPTIONS, transfer }, SPAWN, FACTS);
  assert.equal(env['VLLM_MOONCAKE_BOOTSTRAP_PORT'], '5600');
  assert.equal(env['VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT'], '25');
});

test('how long KV is kept and where it is asked for is not for the given environment to say', () => {
  const names = ['NIXL_ABORT_REQUEST_TIMEOUT', 'MOONCAKE_ABORT_REQUEST_TIMEOUT'];
  const given = Object.fromEntries(names.map((name) => [`VLLM_${name}`, '3']));
  const spawn = { ...SPAWN, env: { ...given, VLLM_MOONCAKE_BOOTSTRAP_PORT: '1' } };
  const nixl = serveEnv({ ...OPTIONS, transfer: TRANSFER }, spawn, FACTS);
  assert.equal(nixl['VLLM_NIXL_ABORT_REQUEST_TIMEOUT'], '25');
  const transfer = { ...TRANSFER, protocol: 'mooncake' } as const;
  const mooncake = serveEnv({ ...OPTIONS, transfer }, spawn, FACTS);
  assert.equal(mooncake['VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT'], '25');
  assert.equal(mooncake['VLLM_MOONCAKE_BOOTSTRAP_PORT'], '5600');
});

test('routes for developers only on a loopback address; the given environment wins', () => {
  assert.equal(serveEnv(OPTIONS, SPAWN, FACTS)['VLLM_SERVER_DEV_MODE'], '1');
  const told = serveEnv(OPTIONS, { ...SPAWN, args: ['--host', '0.0.0.0'] }, FACTS);
  assert.equal(told['VLLM_SERVER_DEV_MODE'], undefined);
  const open = serveEnv(OPTIONS, { ...SPAWN, host: '0.0.0.0' }, FACTS);
  assert.equal(open['VLLM_SERVER_DEV_MODE'], undefined);
  assert.equal(open['VLLM_NO_USAGE_STATS'], '0');
});
