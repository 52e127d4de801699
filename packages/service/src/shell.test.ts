import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bus, BusError, MemoryNetwork } from '@busbar/bus';
import {
  bucketNames,
  type CloudEvent,
  createSubjects,
  decodeCloudEvent,
  decodeInstance,
  type Instance,
} from '@busbar/protocol';
import { createLogger } from '@busbar/telemetry';
import { baseConfigSchema } from './base-config.ts';
import { loadConfig } from './config.ts';
import { connectWithRetry } from './connect.ts';
import { ServiceError } from './errors.ts';
import type { Check, Service, ServiceContext } from './port.ts';
import { type Shell, startShell } from './shell.ts';
import { until } from './testing.ts';

const NAMES = bucketNames('default');
const lines: string[] = [];
const log = createLogger({
  level: 'debug',
  format: 'json',
  base: {},
  write: (line) => lines.push(line),
});

interface Script {
  checks: Check[];
  calls: string[];
  drain: (signal: AbortSignal) => Promise<void>;
}

async function start(
  network: MemoryNetwork,
  script: Script,
  env: Record<string, string> = {},
  create?: (context: ServiceContext) => Promise<Service>,
  stopping?: AbortSignal,
): Promise<Shell> {
  const { config } = loadConfig(baseConfigSchema, env);
  const service = (): Service => ({
    checks: () => script.checks,
    drain: async (signal) => {
      script.calls.push('drain');
      await script.drain(signal);
    },
    stop: () => {
      script.calls.push('stop');
      return Promise.resolve();
    },
  });
  return startShell({
    role: 'router',
    id: 'r1',
    config,
    create: create ?? (() => Promise.resolve(service())),
    bus: network.connect(),
    log,
    ...(stopping === undefined ? {} : { stopping }),
  });
}

function newScript(): Script {
  return { checks: [], calls: [], drain: () => Promise.resolve() };
}

/** Every value that the lease had, and "gone". */
async function watchLease(bus: Bus): Promise<string[]> {
  const states: string[] = [];
  const bucket = await bus.bucket(NAMES.instances);
  await bucket.watch((change) => {
    const state = change.kind === 'put' ? decodeInstance(change.value).state : change.kind;
    if (change.kind !== 'snapshot' && states.at(-1) !== state) states.push(state);
  });
  return states;
}

test('a process registers as starting, becomes ready with its checks, drains, stops and is gone', async () => {
  const network = new MemoryNetwork();
  const observer = network.connect();
  const states = await watchLease(observer);
  const script = newScript();
  script.checks = [{ name: 'x', ok: false, detail: 'not yet' }];
  const shell = await start(network, script);
  await until('the registration', () => states.length === 1);
  assert.equal((await fetch(`${shell.adminUrl}/ready`)).status, 503);
  script.checks = [{ name: 'x', ok: true, detail: 'fine' }];
  await until('ready', () => states.length === 2);
  const ready = await fetch(`${shell.adminUrl}/ready`);
  assert.equal(ready.status, 200);
  const metrics = await (await fetch(`${shell.adminUrl}/metrics`)).text();
  assert.match(metrics, /^busbar_bus_reconnects_total\{role=.* 0$/m);
  const body = (await ready.json()) as { checks: Check[]; state: string };
  assert.deepEqual(
    body.checks.map((check) => check.name),
    ['bus', 'lease', 'x'],
  );
  assert.equal(body.state, 'ready');
  const entries = await (await observer.bucket(NAMES.instances)).entries();
  const instance: Instance = decodeInstance(entries[0]!.value);
  assert.equal(instance.adminUrl, shell.adminUrl);
  assert.equal(instance.epoch, shell.context.epoch);

  let drainStatus = 0;
  script.drain = async () => {
    drainStatus = (await fetch(`${shell.adminUrl}/ready`)).status;
  };
  await Promise.all([shell.shutdown(), shell.shutdown()]);
  assert.equal(drainStatus, 503);
  assert.deepEqual(script.calls, ['drain', 'stop']);
  assert.deepEqual(states, ['starting', 'ready', 'draining', 'gone']);
  await assert.rejects(fetch(`${shell.adminUrl}/live`));
  await observer.close();
});

test('a drain ends at its limit and the service is stopped all the same', async () => {
  const script = newScript();
  let aborted = false;
  script.drain = (signal) =>
    new Promise((resolve) => {
      signal.addEventListener('abort', () => {
        aborted = true;
        resolve();
      });
    });
  const shell = await start(new MemoryNetwork(), script, { BUSBAR_DRAIN_MS: '50' });
  const beganMs = performance.now();
  await shell.shutdown();
  assert.ok(aborted);
  assert.deepEqual(script.calls, ['drain', 'stop']);
  assert.ok(performance.now() - beganMs < 2_000);
});

test('a drain ends when the person hurries', async () => {
  const script = newScript();
  script.drain = (signal) =>
    new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
  const shell = await start(new MemoryNetwork(), script, { BUSBAR_DRAIN_MS: '3600000' });
  const ended = shell.shutdown();
  await until('the drain', () => script.calls.includes('drain'));
  shell.hurry();
  await ended;
  assert.deepEqual(script.calls, ['drain', 'stop']);
});

test('a long start says what it is at', async () => {
  const network = new MemoryNetwork();
  const observer = network.connect();
  let seen = '';
  const slow = async (context: ServiceContext): Promise<Service> => {
    context.reportStart('loading the model');
    const entries = await (await observer.bucket(NAMES.instances)).entries();
    const { adminUrl } = decodeInstance(entries[0]!.value);
    seen = await (await fetch(`${adminUrl}/ready`)).text();
    return { checks: () => [], drain: () => Promise.resolve(), stop: () => Promise.resolve() };
  };
  const shell = await start(network, newScript(), {}, slow);
  assert.match(seen, /"name":"started","ok":false,"detail":"loading the model"/);
  await shell.shutdown();
  await observer.close();
});

test('a start that is asked to stop ends, and leaves no lease and no port behind', async () => {
  const network = new MemoryNetwork();
  const observer = network.connect();
  const stopping = new AbortController();
  let adminUrl = '';
  const slow = async (context: ServiceContext): Promise<Service> => {
    const entries = await (await observer.bucket(NAMES.instances)).entries();
    adminUrl = decodeInstance(entries[0]!.value).adminUrl ?? '';
    return new Promise((_, reject) => {
      context.stopping.addEventListener('abort', () => reject(new Error('told to stop')));
      stopping.abort();
    });
  };
  await assert.rejects(start(network, newScript(), {}, slow, stopping.signal), /told to stop/);
  assert.deepEqual(await (await observer.bucket(NAMES.instances)).entries(), []);
  await assert.rejects(fetch(`${adminUrl}/live`));
  await observer.close();
});

test('a service that cannot be created leaves no lease and no port behind', async () => {
  const network = new MemoryNetwork();
  const observer = network.connect();
  let adminUrl = '';
  const failing = async (): Promise<Service> => {
    const entries = await (await observer.bucket(NAMES.instances)).entries();
    adminUrl = decodeInstance(entries[0]!.value).adminUrl ?? '';
    assert.equal((await fetch(`${adminUrl}/ready`)).status, 503);
    throw new Error('no engine');
  };
  await assert.rejects(start(network, newScript(), {}, failing), /no engine/);
  assert.deepEqual(await (await observer.bucket(NAMES.instances)).entries(), []);
  await assert.rejects(fetch(`${adminUrl}/live`));
  await observer.close();
});

test('while the bus is away the process is unready, afterwards it is ready and registered again', async () => {
  const network = new MemoryNetwork();
  const shell = await start(network, newScript());
  await until('ready', () => shell.readiness().state === 'ready');
  network.disconnect();
  const lost = shell.readiness();
  assert.equal(lost.status, 'unready');
  assert.match(lost.checks.find((check) => check.name === 'bus')?.detail ?? '', /disconnected/);
  network.reconnect();
  await until('ready again', () => shell.readiness().status === 'ready');
  await shell.shutdown();
});

test('the log tells when the bus went and when it came back', async () => {
  const network = new MemoryNetwork();
  const shell = await start(network, newScript());
  lines.length = 0;
  network.disconnect();
  network.reconnect();
  await until('both lines', () => lines.some((line) => line.includes('connected to NATS again')));
  const told = lines.filter((line) => line.includes('NATS'));
  assert.match(told[0] ?? '', /"level":"warn".*the connection to NATS is lost/);
  assert.match(told[1] ?? '', /"awayMs":\d+/);
  await shell.shutdown();
});

test('published events are CloudEvents with ids of their own; a bus that is down does not matter', async () => {
  const network = new MemoryNetwork();
  const observer = network.connect();
  const events: CloudEvent[] = [];
  observer.subscribe(createSubjects('default').eventAll, ({ data }) =>
    events.push(decodeCloudEvent(data)),
  );
  const shell = await start(network, newScript());
  shell.context.publishEvent('worker.joined', 'w1', { model: 'm' });
  shell.context.publishEvent('worker.joined', 'w2', { model: 'm' });
  await until('two events', () => events.length === 2);
  assert.equal(new Set(events.map((event) => event.id)).size, 2);
  assert.equal(events[0]?.source, '/busbar/default/router/r1');
  assert.equal(events[0]?.subject, 'w1');
  await shell.shutdown();
  shell.context.publishEvent('worker.left', 'w1', {});
  await observer.close();
});

test('connecting is tried again while that may help, with a visible line, and given up in time', async () => {
  const bus = new MemoryNetwork().connect();
  let failures = 2;
  const flaky = (): Promise<Bus> =>
    failures-- > 0
      ? Promise.reject(new BusError('BUS_UNREACHABLE', 'nobody there'))
      : Promise.resolve(bus);
  const options = { url: 'nats://user:secret@h:1', waitMs: 5_000, log };
  assert.equal(await connectWithRetry(flaky, options), bus);
  assert.match(lines.join(''), /NATS is not ready; trying again/);
  assert.doesNotMatch(lines.join(''), /secret/);
  let calls = 0;
  for (const [code, waitMs] of [
    ['BUS_SERVER_TOO_OLD', 5_000],
    ['BUS_UNREACHABLE', 100],
  ] as const) {
    calls = 0;
    const broken = (): Promise<Bus> => {
      calls++;
      return Promise.reject(new BusError(code, 'a sentence'));
    };
    await assert.rejects(
      connectWithRetry(broken, { ...options, waitMs }),
      (error: unknown) =>
        error instanceof ServiceError &&
        error.code === 'SERVICE_BUS' &&
        error.message === 'a sentence',
    );
    assert.equal(calls, 1);
  }
});
