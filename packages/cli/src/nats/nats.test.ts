import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findNatsServer } from '@busbar/nats-server';
import { freePort, isPortFree, portHolder } from '../host/ports.ts';
import { natsConf } from './conf.ts';
import { isVersionAtLeast, natsAddress, parseNatsInfo, readNatsInfo } from './info.ts';

test('nats-server accepts the configuration, also with odd characters in the folder', async () => {
  const server = await findNatsServer();
  assert.ok(server, 'nats-server is part of the set-up');
  const folder = mkdtempSync(join(tmpdir(), 'busbar "conf" -'));
  const conf = join(folder, 'n.conf');
  writeFileSync(conf, natsConf({ serverName: 's', port: 4222, storeDir: join(folder, 'store') }));
  const { status, stderr } = spawnSync(server.path, ['-t', '-c', conf], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  rmSync(folder, { recursive: true });
});

test('versions compare by number', () => {
  assert.equal(isVersionAtLeast('2.11.0', 2, 11), true);
  assert.equal(isVersionAtLeast('2.9.22', 2, 11), false);
  assert.equal(isVersionAtLeast('2.12.0-beta.1', 2, 11), true);
  assert.equal(isVersionAtLeast('3.0.0', 2, 11), true);
  assert.equal(isVersionAtLeast('nonsense', 2, 11), false);
});

test('the first of several URLs counts', () => {
  assert.deepEqual(natsAddress('nats://a:1,nats://b:2'), { host: 'a', port: 1 });
  assert.deepEqual(natsAddress('tls://user:pw@host'), { host: 'host', port: 4222 });
  assert.deepEqual(natsAddress('nats://[::1]:5'), { host: '::1', port: 5 });
});

test('a server that is not NATS is told from one that is, and from silence', async () => {
  const answers = ['HTTP/1.1 400 Bad Request\r\n\r\n', 'INFO {"server_id":"x"}\r\n', ''];
  for (const answer of answers) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      if (answer !== '') socket.write(answer);
    });
    const port = await new Promise<number>((resolve) => {
      server.listen(0, '127.0.0.1', () => {
        const address = server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : 0);
      });
    });
    await assert.rejects(
      readNatsInfo(`nats://127.0.0.1:${port}`, 150),
      answer === '' ? /did not answer within 150 ms/ : /is not a NATS server/,
    );
    assert.equal(await isPortFree('127.0.0.1', port), false);
    if (process.platform === 'linux') assert.equal(portHolder(port)?.pid, process.pid);
    server.close();
  }
  assert.equal(
    parseNatsInfo('INFO {"server_id":"x","version":"2.11.0","jetstream":true}').hasJetStream,
    true,
  );
  const port = await freePort('127.0.0.1');
  assert.equal(await isPortFree('127.0.0.1', port), true);
});
