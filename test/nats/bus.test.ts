import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BucketChange, type Bus, BusError, connectNats } from '@busbar/bus';
import { type BusPair, busContract } from '@busbar/bus/contract';
import {
  freePort,
  type NatsServer,
  startFaultProxy,
  startNatsServer,
  waitFor,
} from '@busbar/testkit';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

busContract('NATS', async (): Promise<BusPair> => {
  const server = await startNatsServer();
  const errors: unknown[] = [];
  const a = await connectNats({ url: server.url, name: 'a' });
  const b = await connectNats({
    url: server.url,
    name: 'b',
    onError: (error) => errors.push(error),
  });
  return {
    a,
    b,
    errors,
    disrupt: () => server.kill(),
    restore: () => server.restart(),
    dispose: async () => {
      await a.close();
      await b.close();
      await server.stop();
    },
  };
});

/** Consumers that the server keeps for a bucket, asked over a connection of its own. */
async function countConsumers(server: NatsServer, bucket: string): Promise<number> {
  const connection = await connect({ servers: server.url });
  try {
    const manager = await jetstreamManager(connection);
    return (await manager.streams.info(`KV_${bucket}`)).state.consumer_count;
  } finally {
    await connection.close();
  }
}

/** Messages that the stream of a bucket holds, markers included. */
async function countMessages(server: NatsServer, bucket: string): Promise<number> {
  const connection = await connect({ servers: server.url });
  try {
    const manager = await jetstreamManager(connection);
    return (await manager.streams.info(`KV_${bucket}`)).state.messages;
  } finally {
    await connection.close();
  }
}

/** Follows a bucket as a reader of the contract does, by changes and snapshots. */
async function mirror(bus: Bus, bucketName: string): Promise<Map<string, string>> {
  const keys = new Map<string, string>();
  const follow = (change: BucketChange): void => {
    if (change.kind === 'put') keys.set(change.key, new TextDecoder().decode(change.value));
    else if (change.kind === 'gone') keys.delete(change.key);
    else for (const key of keys.keys()) if (!change.keys.has(key)) keys.delete(key);
  };
  await (await bus.bucket(bucketName)).watch(follow);
  return keys;
}

describe('NATS: leases', () => {
  let server: NatsServer;
  before(async () => {
    server = await startNatsServer();
  });
  after(() => server.stop());

  test('the key of a holder that dies expires after its time to live, not before', async () => {
    const holder = await connectNats({ url: server.url, name: 'holder' });
    const watcher = await connectNats({ url: server.url, name: 'watcher' });
    const keys = await mirror(watcher, 'leases');
    const bucket = await holder.bucket('leases');
    const lease = await bucket.lease('worker', bytes('w'), { ttlMs: 2_000, renewMs: 500 });
    await sleep(2_600);
    assert.equal(keys.get('worker'), 'w');
    assert.equal(lease.isHeld, true);
    await holder.close();
    const closedMs = performance.now();
    await waitFor(() => !keys.has('worker'), 6_000, 'expiry');
    const tookMs = performance.now() - closedMs;
    assert.ok(tookMs > 1_200 && tookMs < 4_500, `${tookMs} ms`);
    assert.equal(await (await watcher.bucket('leases')).get('worker'), undefined);
    await watcher.close();
  });

  test('a frozen server makes a lease not held, and it is held again soon after', async () => {
    const frozen = await startNatsServer();
    const bus = await connectNats({ url: frozen.url, name: 'frozen' });
    const bucket = await bus.bucket('leases');
    const lease = await bucket.lease('worker', bytes('w'), { ttlMs: 2_000, renewMs: 500 });
    frozen.pause();
    await waitFor(() => !lease.isHeld, 3_000, 'lease lost');
    frozen.resume();
    await waitFor(() => lease.isHeld, 5_000, 'lease held again');
    await bus.close();
    await frozen.stop();
  });
});

describe('NATS: kill and restart of the server', () => {
  test('watches, leases, requests and messages go on within two seconds of its return', async (t) => {
    const server = await startNatsServer();
    const worker = await connectNats({ url: server.url, name: 'worker' });
    const router = await connectNats({ url: server.url, name: 'router' });
    worker.subscribe('work', (message) => message.respond(message.data));
    const busy = await mirror(router, 'instances');
    const idle = await mirror(router, 'models');
    const bucket = await worker.bucket('instances');
    const lease = await bucket.lease('worker', bytes('w'), { ttlMs: 3_000, renewMs: 1_000 });
    await worker.flush();
    let slowestMs = 0;
    for (let round = 0; round < 3; round++) {
      await server.kill();
      await sleep(round === 1 ? 3_500 : 300);
      await server.restart();
      const backMs = performance.now();
      const ask = (): Promise<unknown> => router.request('work', bytes('?'), { timeoutMs: 200 });
      await waitFor(ask, 5_000, 'request after restart');
      slowestMs = Math.max(slowestMs, performance.now() - backMs);
      await waitFor(() => lease.isHeld && busy.get('worker') === 'w', 5_000, 'lease after restart');
      await bucket.put(`round.${round}`, bytes('x'));
      await waitFor(() => busy.has(`round.${round}`), 5_000, 'change after restart');
      await (await worker.bucket('models')).put(`model${round}`, bytes('m'));
      await waitFor(() => idle.has(`model${round}`), 5_000, 'change on the idle watch');
    }
    t.diagnostic(`first answered request after the server is back: ${slowestMs.toFixed(0)} ms`);
    assert.ok(slowestMs < 2_000, `${slowestMs} ms`);
    assert.equal(worker.counters.handlerErrors, 0);
    await worker.close();
    await router.close();
    await server.stop();
  });

  test('twenty breaks leave one consumer for each watch', async () => {
    const server = await startNatsServer();
    const proxy = await startFaultProxy(server.port);
    const direct = await connectNats({ url: server.url, name: 'direct' });
    const bus = await connectNats({ url: `nats://127.0.0.1:${proxy.port}`, name: 'proxied' });
    const keys = await mirror(bus, 'instances');
    const bucket = await direct.bucket('instances');
    for (let round = 0; round < 20; round++) {
      await bucket.put('temporary', bytes(`${round}`));
      proxy.cut();
      await waitFor(() => bus.status === 'disconnected', 2_000, 'break');
      await bucket.delete('temporary');
      await bucket.put(`kept.${round}`, bytes('k'));
      proxy.heal();
      await waitFor(() => keys.has(`kept.${round}`) && !keys.has('temporary'), 5_000, 'catch up');
    }
    assert.equal(keys.size, 20);
    assert.equal(bus.counters.reconnects, 20);
    const count = (): Promise<number> => countConsumers(server, 'instances');
    await waitFor(async () => (await count()) === 1, 15_000, 'one consumer');
    await bus.close();
    await direct.close();
    await proxy.close();
    await server.stop();
  });

  test('a server that comes back with an empty disk gets its buckets and leases again', async () => {
    const port = await freePort();
    const first = await startNatsServer({ port });
    const bus = await connectNats({ url: first.url, name: 'bus', onError: () => {} });
    const keys = await mirror(bus, 'instances');
    const bucket = await bus.bucket('instances');
    await bucket.put('old', bytes('o'));
    await bucket.lease('worker', bytes('w'), { ttlMs: 3_000, renewMs: 500 });
    await first.stop();
    const second = await startNatsServer({ port });
    await waitFor(() => keys.size === 1 && keys.has('worker'), 5_000, 'lease in the new store');
    await bucket.put('new', bytes('n'));
    await waitFor(() => keys.has('new'), 3_000, 'change in the new store');
    await bus.close();
    await second.stop();
  });

  test('a connection that goes silent is noticed and replaced', async () => {
    const server = await startNatsServer();
    const proxy = await startFaultProxy(server.port);
    const bus = await connectNats({ url: `nats://127.0.0.1:${proxy.port}`, name: 'silent' });
    bus.subscribe('echo', (message) => message.respond(message.data));
    const keys = await mirror(bus, 'instances');
    await bus.flush();
    proxy.blackHole();
    await waitFor(() => bus.status === 'disconnected', 10_000, 'silence noticed');
    proxy.heal();
    const ask = (): Promise<unknown> => bus.request('echo', bytes('?'), { timeoutMs: 200 });
    await waitFor(ask, 5_000, 'request after silence');
    await (await bus.bucket('instances')).put('k', bytes('v'));
    await waitFor(() => keys.has('k'), 5_000, 'watch after silence');
    await bus.close();
    await proxy.close();
    await server.stop();
  });
});

describe('NATS: the store stays small', () => {
  test('renewals replace each other, and a deleted key leaves one marker that expires', async () => {
    const server = await startNatsServer();
    const bus = await connectNats({ url: server.url, name: 'store' });
    const bucket = await bus.bucket('instances');
    const lease = await bucket.lease('worker', bytes('w'), { ttlMs: 2_000, renewMs: 20 });
    await sleep(400);
    assert.equal(await countMessages(server, 'instances'), 1);
    await lease.release();
    assert.equal(await countMessages(server, 'instances'), 1);
    const connection = await connect({ servers: server.url });
    const stream = await (await jetstreamManager(connection)).streams.info('KV_instances');
    const marker = await (await jetstreamManager(connection)).streams.getMessage('KV_instances', {
      seq: stream.state.last_seq,
    });
    assert.equal(marker?.header.get('Nats-TTL'), '60s');
    assert.equal(stream.config.storage, 'file');
    await connection.close();
    await bus.close();
    await server.stop();
  });
});

describe('NATS: sentences at start', () => {
  const failure = async (url: string): Promise<BusError> => {
    const error: unknown = await connectNats({ url, name: 'x' }).then(
      () => assert.fail('connected'),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof BusError, String(error));
    return error;
  };

  test('nothing listens', async () => {
    const url = `nats://127.0.0.1:${await freePort()}`;
    const { code, message } = await failure(url);
    assert.equal(code, 'BUS_UNREACHABLE');
    assert.ok(message.includes(url), message);
    assert.match(message, /npm start.*BUSBAR_NATS_URL.*nats-server -js/);
  });

  test('something else listens and never greets', async () => {
    const server = await startNatsServer();
    const proxy = await startFaultProxy(server.port);
    proxy.blackHole();
    assert.equal((await failure(`nats://127.0.0.1:${proxy.port}`)).code, 'BUS_UNREACHABLE');
    await proxy.close();
    await server.stop();
  });

  test('a URL that is none', async () => {
    const { code, message } = await failure('http://127.0.0.1:4222');
    assert.equal(code, 'BUS_UNREACHABLE');
    assert.match(message, /not a NATS URL/);
  });

  test('no JetStream', async () => {
    const server = await startNatsServer({ jetStream: false });
    const { code, message } = await failure(server.url);
    assert.equal(code, 'BUS_NO_JETSTREAM');
    assert.match(message, /without JetStream.*-js/);
    await server.stop();
  });

  test('a server that is too old', async () => {
    const info = JSON.stringify({ version: '2.10.29', proto: 1, headers: true, max_payload: 1024 });
    const old = createServer((socket) => {
      socket.write(`INFO ${info}\r\n`);
      socket.on('data', (chunk) => chunk.includes('PING') && socket.write('PONG\r\n'));
    }).listen(0, '127.0.0.1');
    await once(old, 'listening');
    const address = old.address();
    assert.ok(address !== null && typeof address !== 'string');
    const { code, message } = await failure(`nats://127.0.0.1:${address.port}`);
    assert.equal(code, 'BUS_SERVER_TOO_OLD');
    assert.match(message, /version 2\.10\.29.*2\.11 or newer/);
    old.close();
  });

  test('wrong password, which is not repeated', async () => {
    const server = await startNatsServer({ args: ['--user', 'u', '--pass', 'right'] });
    const { code, message } = await failure(`nats://u:wrong-one@127.0.0.1:${server.port}`);
    assert.equal(code, 'BUS_UNAUTHORIZED');
    assert.ok(!message.includes('wrong-one'), message);
    const bus = await connectNats({ url: `nats://u:right@127.0.0.1:${server.port}`, name: 'x' });
    assert.equal(bus.status, 'connected');
    await bus.close();
    await server.stop();
  });
});
