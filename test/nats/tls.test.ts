import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { type NatsServer, startNatsServer } from '@busbar/testkit';

const folder = join(import.meta.dirname, 'tls');
const cert = join(folder, 'cert.pem');
/** More than one read of a socket and more than one TLS record. */
const BYTES = 200_000;

let server: NatsServer;
before(async () => {
  const args = ['--tls', '--tlscert', cert, '--tlskey', join(folder, 'key.pem')];
  server = await startNatsServer({ args });
});
after(() => server.stop());

/** What the certificate is worth is decided when a process starts, so each client is one. */
async function askOver(scheme: string, trusted: string | undefined): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(folder, 'client.ts'), `${scheme}://localhost:${server.port}`, String(BYTES)],
    { env: { ...process.env, NODE_EXTRA_CA_CERTS: trusted }, timeout: 20_000 },
  );
  return stdout;
}

for (const scheme of ['tls', 'nats']) {
  test(`a server that asks for TLS is spoken to over TLS: ${scheme}://`, async () => {
    assert.equal(await askOver(scheme, cert), `${BYTES}\n`);
  });
}

test('a server whose certificate nobody vouches for is not spoken to', async () => {
  await assert.rejects(askOver('tls', undefined), /certificate/);
});
