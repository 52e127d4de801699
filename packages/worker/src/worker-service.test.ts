import assert from 'node:assert/strict';
import { type TestContext as NodeTest, test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { decodeLinkRecord, decodeModelCard, instanceKey, type WorkerInfo } from '@busbar/protocol';
import { baseFields, loadConfig, type Service, ServiceError } from '@busbar/service';
import { createTestContext, type TestContext, until } from '@busbar/service/testing';
import { z } from 'zod';
import { workerFields } from './config.ts';
import { leaseOf } from './facts.testing.ts';
import { createWorkerService } from './worker-service.ts';

const schema = z.object({ ...baseFields, ...workerFields });

interface Started {
  service: Service;
  context: TestContext;
  info: WorkerInfo;
}

/** Starts a worker with the mock engine and says of it in bucket `instances` what a shell would. */
async function start(
  t: NodeTest,
  network: MemoryNetwork,
  role: 'decode' | 'prefill',
  id: string,
  env: Record<string, string> = {},
): Promise<Started> {
  const context = createTestContext(role, network.connect(), id);
  const given = { BUSBAR_MODEL: 'm', BUSBAR_PROFILE: 'instant', ...env };
  const { config } = loadConfig(schema, given);
  const service = await createWorkerService(context, config, {});
  t.after(() => service.stop());
  const info = context.instanceChanges.at(-1)?.worker;
  assert.ok(info);
  const instances = await context.bus.bucket(context.buckets.instances);
  await instances.put(instanceKey(role, id), leaseOf(id, info));
  return { service, context, info };
}

async function cards(context: TestContext): Promise<string[]> {
  const entries = await (await context.bus.bucket(context.buckets.models)).entries();
  return entries.map(({ value }) => {
    const { name, blockSize } = decodeModelCard(value);
    return `${name} ${blockSize}`;
  });
}

test('an address for KV that is not of this machine is a sentence with the variable', async (t) => {
  await assert.rejects(
    start(t, new MemoryNetwork(), 'prefill', 'p1', { BUSBAR_TRANSFER_HOST: '192.0.2.1' }),
    (error: unknown) =>
      error instanceof ServiceError &&
      error.code === 'SERVICE_PORT' &&
      /^Port for KV: 192\.0\.2\.1 is no address of this machine; .*BUSBAR_TRANSFER_HOST/.test(
        error.message,
      ),
  );
});

test('a prefill worker makes no model servable, and does not start against the card of the living', async (t) => {
  const network = new MemoryNetwork();
  const prefill = await start(t, network, 'prefill', 'p1');
  assert.deepEqual(await cards(prefill.context), []);
  assert.equal(prefill.info.role, 'prefill');
  assert.match(prefill.info.transfer?.endpoint ?? '', /^127\.0\.0\.1:\d+$/);
  await start(t, network, 'decode', 'd1');
  assert.deepEqual(await cards(prefill.context), ['m 16']);
  await assert.rejects(
    start(t, network, 'prefill', 'p2', { BUSBAR_BLOCK_SIZE: '32' }),
    (error: unknown) =>
      error instanceof ServiceError &&
      error.code === 'SERVICE_CONFLICT' &&
      /served by d1 with a block size of 16, not 32/.test(error.message),
  );
});

test('a decode worker probes a prefill worker that it can pair with, and takes its record back', async (t) => {
  const network = new MemoryNetwork();
  await start(t, network, 'prefill', 'p1');
  const decode = await start(t, network, 'decode', 'd1');
  const bucket = await decode.context.bus.bucket(decode.context.buckets.links);
  await until('the record', async () => (await bucket.get('p1.d1')) !== undefined);
  const record = decodeLinkRecord((await bucket.get('p1.d1'))!.value);
  assert.equal(record.source, 'probe');
  assert.ok(record.bytesPerMs > 1_000, `${record.bytesPerMs}`);
  const links = decode.service.adminRoutes?.['/links']?.();
  assert.ok(Array.isArray(links) && links.length === 1);
  const page = await decode.context.registry.metrics();
  assert.match(page, /busbar_decode_link_bytes_per_second\{prefill="p1",.*\} \d{6,}/);
  assert.match(page, /busbar_decode_link_transfers_total\{prefill="p1",.*\} 0\n/);
  await decode.service.stop();
  assert.deepEqual(await bucket.entries(), []);
});

test('a lease of a prefill worker that cannot be read is counted and logged', async (t) => {
  const network = new MemoryNetwork();
  const { context } = await start(t, network, 'decode', 'd1');
  const instances = await context.bus.bucket(context.buckets.instances);
  await instances.put('prefill.p1', Uint8Array.of(1));
  const counted = /busbar_decode_bad_frames_total\{subject="instances",.*\} 1\n/;
  await until('the count', async () => counted.test(await context.registry.metrics()));
  const lines = context.lines.filter((line) => line.includes('a lease cannot be read'));
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /"key":"prefill\.p1"/);
});

test('a worker that cannot go on starting leaves no engine behind', async (t) => {
  const network = new MemoryNetwork();
  await start(t, network, 'decode', 'd1');
  const context = createTestContext('decode', network.connect(), 'd2');
  const { config } = loadConfig(schema, { BUSBAR_MODEL: 'm', BUSBAR_BLOCK_SIZE: '32' });
  await assert.rejects(createWorkerService(context, config, {}), /block size of 16, not 32/);
  const stopped = new AbortController();
  stopped.abort(new Error('told to stop'));
  const other = createTestContext('decode', network.connect(), 'd3');
  const told = { ...other, stopping: stopped.signal };
  await assert.rejects(createWorkerService(told, config, {}), /told to stop/);
});
