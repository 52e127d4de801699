import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { baseFields } from './base-config.ts';
import { loadConfig, redactConfig, variableName } from './config.ts';
import { ServiceError } from './errors.ts';
import { field } from './fields.ts';

const schema = z.object({
  ...baseFields,
  httpPort: field.int(0, 65_535).default(8000).describe('Port'),
  kvEvents: field.flag().default(true).describe('Events'),
  speed: field.number(0.01, 1000).default(1).describe('Speed'),
  policy: field.choice(['predictive', 'random']).default('predictive').describe('Policy'),
  apiKey: z.string().optional().meta({ isSecret: true }).describe('Key'),
});

function problemsOf(env: Record<string, string>): string[] {
  try {
    loadConfig(schema, env);
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, 'SERVICE_CONFIG');
    return error.message.split('\n');
  }
  return [];
}

test('defaults, values and their origins', () => {
  const { config, origins } = loadConfig(schema, {
    BUSBAR_HTTP_PORT: '9000',
    BUSBAR_KV_EVENTS: 'false',
    BUSBAR_SPEED: '0.5',
    BUSBAR_POLICY: '',
    PATH: '/bin',
  });
  assert.equal(config.httpPort, 9000);
  assert.equal(config.kvEvents, false);
  assert.equal(config.speed, 0.5);
  assert.equal(config.policy, 'predictive');
  assert.equal(config.natsUrl, 'nats://127.0.0.1:4222');
  assert.equal(config.id, undefined);
  assert.equal(origins['httpPort'], 'env');
  assert.equal(origins['policy'], 'default');
  assert.equal(origins['natsUrl'], 'default');
});

test('every problem is one sentence that names the variable, the wanted and the given value', () => {
  assert.deepEqual(
    problemsOf({
      BUSBAR_HTTP_PORT: '70000',
      BUSBAR_KV_EVENTS: 'maybe',
      BUSBAR_POLICY: 'kvv',
      BUSBAR_SPEED: '1e',
      BUSBAR_NAMESPACE: 'A.b',
    }),
    [
      'BUSBAR_NAMESPACE must be 1 to 32 of a-z, 0-9 and "-", not "A.b".',
      'BUSBAR_HTTP_PORT must be at most 65535, not "70000".',
      'BUSBAR_KV_EVENTS must be true or false, not "maybe".',
      'BUSBAR_SPEED must be a number from 0.01 to 1000, not "1e".',
      'BUSBAR_POLICY must be one of predictive, random, not "kvv".',
    ],
  );
  for (const text of ['', '1.5', 'NaN', 'Infinity', '0x10', '12px']) {
    const expected = text === '' ? 0 : 1;
    assert.equal(problemsOf({ BUSBAR_HTTP_PORT: text }).length, expected, text);
  }
});

test('an unknown BUSBAR_ variable is a problem with a suggestion', () => {
  assert.deepEqual(problemsOf({ BUSBAR_HTTP_PROT: '1' }), [
    'BUSBAR_HTTP_PROT is not known; did you mean BUSBAR_HTTP_PORT?',
  ]);
  assert.match(
    problemsOf({ BUSBAR_PORT: '1' })[0]!,
    /; did you mean BUSBAR_HTTP_PORT or BUSBAR_ADMIN_PORT\?$/,
  );
  assert.match(problemsOf({ BUSBAR_ZZZZZZZZZZ: '1' })[0]!, /known are BUSBAR_NATS_URL, /);
});

test('what is printed hides secrets', () => {
  const env = { BUSBAR_API_KEY: 'abc', BUSBAR_NATS_URL: 'nats://user:pw@host:4222,nats://t@b:1' };
  const { config } = loadConfig(schema, env);
  const shown = redactConfig(schema, config);
  assert.equal(shown['apiKey'], '[hidden]');
  assert.equal(shown['natsUrl'], 'nats://[hidden]@host:4222,nats://[hidden]@b:1');
  assert.doesNotMatch(problemsOf({ BUSBAR_NATS_URL: 'http://user:pw@host' })[0]!, /pw/);
});

test('a field without a description is refused', () => {
  assert.throws(() => loadConfig(z.object({ x: z.string().optional() }), {}), /no description/);
  assert.equal(variableName('eventGraceMs'), 'BUSBAR_EVENT_GRACE_MS');
});

test('a variable of the command may stand beside those of a service', () => {
  assert.deepEqual(problemsOf({ BUSBAR_STATE_DIR: '.busbar/x' }), []);
});
