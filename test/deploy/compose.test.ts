import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeConfigSchema } from '@busbar/decode';
import { frontendConfigSchema } from '@busbar/frontend';
import { prefillConfigSchema } from '@busbar/prefill';
import { limit } from '@busbar/protocol';
import { routerConfigSchema } from '@busbar/router';
import { baseConfigSchema, loadConfig, variableName } from '@busbar/service';
import { durationMs, natsSizes, readComposeFile, readText, root } from './compose-file.ts';

/** What a process may need after its drain before it has ended. */
const AFTER_DRAIN_MS = 5_000;
/** Headers and protocol of a message beside its payload. */
const MESSAGE_OVERHEAD_BYTES = 16 * 1024;

const { services, volumes } = readComposeFile();
const schemas = {
  decode: decodeConfigSchema,
  frontend: frontendConfigSchema,
  prefill: prefillConfigSchema,
  router: routerConfigSchema,
};
const roles = ['decode', 'frontend', 'prefill', 'router'] as const;

function service(name: string) {
  const found = services[name];
  assert.ok(found, `docker-compose.yml has no service ${name}`);
  return found;
}

/** The values that the file itself gives to a service. */
function givenEnv(name: string): Record<string, string> {
  const entries = Object.entries(service(name).environment);
  return Object.fromEntries(
    entries.flatMap(([key, value]) => (value === null ? [] : [[key, value]])),
  );
}

test('the stack is nats-server and every service', () => {
  assert.deepEqual(Object.keys(services).toSorted(), ['nats', ...roles].toSorted());
  for (const [name, { profiles }] of Object.entries(services)) {
    assert.deepEqual(profiles, name === 'prefill' ? ['prefill'] : [], name);
  }
});

test('a service has its drain and 5 s more before it is killed', () => {
  for (const role of roles) {
    const { config } = loadConfig(baseConfigSchema, baseEnv(role));
    const graceMs = durationMs(service(role).stop_grace_period);
    assert.ok(
      graceMs >= config.drainMs + AFTER_DRAIN_MS,
      `${role} is killed after ${graceMs} ms and drains for ${config.drainMs} ms`,
    );
    // The grace is a constant, so a drain from outside could outgrow it.
    assert.ok(
      !('BUSBAR_DRAIN_MS' in service(role).environment) || 'BUSBAR_DRAIN_MS' in givenEnv(role),
    );
  }
});

function baseEnv(role: string): Record<string, string> {
  const known = Object.keys(baseConfigSchema.shape).map(variableName);
  return Object.fromEntries(Object.entries(givenEnv(role)).filter(([key]) => known.includes(key)));
}

test('SIGTERM reaches the process: no shell between', () => {
  for (const [name, { command, entrypoint }] of Object.entries(services)) {
    const words = [...(entrypoint ?? []), ...command];
    assert.ok(!words.some((word) => /^(?:.*\/)?(?:ba|da)?sh$|^npm$|^npx$/.test(word)), name);
  }
  const dockerfile = readText('infra/docker/Dockerfile');
  assert.match(dockerfile, /^ENTRYPOINT \["node"\]$/m);
  assert.doesNotMatch(dockerfile, /^(?:ENTRYPOINT|CMD) [^[]/m);
});

test('every command names a file that the image holds', () => {
  for (const role of roles) {
    const entry = service(role).command.at(-1) ?? '';
    assert.equal(entry, `services/${role}/src/main.ts`);
    assert.ok(existsSync(join(root, entry)));
    const script = service(role).healthcheck.test[2] ?? '';
    assert.ok(existsSync(join(root, script)), script);
    assert.ok(readText('.dockerignore').includes(`\n!${script}\n`));
    assert.ok(readText('infra/docker/Dockerfile').includes(`COPY ${script} ${script}\n`));
  }
});

test('health is readiness, in exec form, with time to start', () => {
  for (const [name, { healthcheck }] of Object.entries(services)) {
    assert.equal(healthcheck.test[0], 'CMD', name);
    assert.ok(durationMs(healthcheck.start_period) >= 10_000, name);
    assert.ok(durationMs(healthcheck.timeout) <= durationMs(healthcheck.interval), name);
  }
  const urlOf = (name: string) => new URL(service(name).healthcheck.test.at(-1) ?? '');
  assert.equal(urlOf('nats').pathname, '/healthz');
  for (const role of roles) assert.equal(urlOf(role).pathname, '/ready');
  for (const role of ['router', 'decode', 'prefill'])
    assert.equal(urlOf(role).port, givenEnv(role)['BUSBAR_ADMIN_PORT']);
  assert.equal(urlOf('frontend').port, givenEnv('frontend')['BUSBAR_HTTP_PORT']);
});

test('nobody starts before what it needs is healthy', () => {
  for (const role of roles) assert.ok('nats' in service(role).depends_on, role);
  // Stopping goes the other way: answers end while routers and workers live.
  assert.ok(
    'router' in service('frontend').depends_on && 'decode' in service('frontend').depends_on,
  );
  for (const [name, { depends_on }] of Object.entries(services)) {
    for (const [target, { condition }] of Object.entries(depends_on)) {
      assert.equal(condition, 'service_healthy', `${name} on ${target}`);
      assert.ok(target in services, `${name} depends on ${target}`);
    }
  }
});

test('JetStream keeps its files on a volume, and messages of the bus fit', () => {
  const conf = readText('infra/nats/nats.conf');
  const storeDir = /^jetstream \{[^}]*^ {2}store_dir: "([^"]+)"$/m.exec(conf)?.[1];
  assert.ok(storeDir, 'nats.conf has no JetStream store');
  const { volumes: mounts, command } = service('nats');
  const volume = mounts.find((mount) => mount.endsWith(`:${storeDir}`))?.split(':')[0] ?? '';
  assert.ok(volume in volumes, `no named volume is mounted on ${storeDir}`);
  assert.ok(mounts.includes(`./infra/nats/nats.conf:${command.at(-1)}:ro`));
  const sizes = natsSizes();
  assert.ok((sizes.get('max_payload') ?? 0) >= limit('messageBytes') + MESSAGE_OVERHEAD_BYTES);
  assert.ok((sizes.get('max_file_store') ?? 0) > 0);
});

test('services take the variables that they get, and no other', () => {
  for (const role of roles) {
    loadConfig<object>(schemas[role], givenEnv(role));
    const known = Object.keys(schemas[role].shape).map(variableName);
    const given = Object.keys(service(role).environment).filter((key) => key.startsWith('BUSBAR_'));
    assert.deepEqual(
      given.filter((key) => !known.includes(key)),
      [],
    );
    // A process that others cannot name by chance twice, and a drain that fits the grace.
    const fixed = ['BUSBAR_ID', 'BUSBAR_DRAIN_MS', 'BUSBAR_HTTP_REUSE_PORT'];
    assert.deepEqual(
      known.filter((key) => !given.includes(key)).toSorted(),
      fixed.filter((key) => known.includes(key)).toSorted(),
    );
  }
});

test('workers serve KV where other containers reach it', () => {
  for (const role of ['decode', 'prefill'])
    assert.equal(givenEnv(role)['BUSBAR_TRANSFER_HOST'], '0.0.0.0');
});

test('only the frontend is reachable from outside, and that from this machine', () => {
  assert.deepEqual(service('frontend').ports, ['127.0.0.1:8000:8000']);
  for (const name of ['nats', 'router', 'decode', 'prefill'])
    assert.deepEqual(service(name).ports, [], name);
  assert.equal(givenEnv('frontend')['BUSBAR_HTTP_HOST'], '0.0.0.0');
});
