import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError } from '@busbar/base';
import { type Bucket, type Bus, MemoryNetwork } from '@busbar/bus';
import type { LinkProbe, ProbeOptions } from '@busbar/engine';
import {
  decodeLinkRecord,
  encodeLinkRecord,
  instanceKey,
  type LinkRecord,
  type WorkerInfo,
} from '@busbar/protocol';
import { createTestContext, type TestContext, until } from '@busbar/service/testing';
import { infoOf, leaseOf } from '../facts.testing.ts';
import { sweepLinks } from './link-janitor.ts';
import { Links, type LinkTries } from './links.ts';
import type { WarmUpLink } from './warm-up.ts';

const MIB = 1_048_576;

function pairInfo(role: WorkerInfo['role'], endpoint?: string): WorkerInfo {
  return infoOf(role, {
    contextTokens: 1_000,
    transfer: {
      protocol: 'tcp',
      revision: { layout: 'a' },
      kvBytesPerToken: 100_000,
      ...(endpoint === undefined ? {} : { endpoint }),
    },
  });
}

interface Bench {
  bus: Bus;
  context: TestContext;
  links: Links;
  instances: Bucket;
  records: () => Promise<Map<string, LinkRecord>>;
  /** How often each key of the bucket was written. */
  writes: Map<string, number>;
  join: (id: string, info: WorkerInfo, epoch?: number) => Promise<void>;
  probes: { endpoint: string; options: ProbeOptions }[];
}

async function withLinks(
  probe: (endpoint: string) => Promise<LinkProbe>,
  use: (bench: Bench) => Promise<void>,
  own = pairInfo('decode'),
  warmUp: WarmUpLink = () => assert.fail('an engine that moves no KV by itself needs none'),
): Promise<void> {
  const network = new MemoryNetwork();
  const context = createTestContext('decode', network.connect(), 'd1');
  const bus = network.connect();
  const bucket = await bus.bucket(context.buckets.links);
  const instances = await bus.bucket(context.buckets.instances);
  const writes = new Map<string, number>();
  await bucket.watch((change) => {
    if (change.kind === 'put') writes.set(change.key, (writes.get(change.key) ?? 0) + 1);
  });
  const probes: Bench['probes'] = [];
  const tries: LinkTries = {
    probe: (endpoint, options) => {
      probes.push({ endpoint, options });
      return probe(endpoint);
    },
    warmUp,
  };
  const problems: unknown[] = [];
  const links = await Links.start(
    context,
    own,
    own.transfer!,
    tries,
    (error) => void problems.push(error),
  );
  const records = async (): Promise<Map<string, LinkRecord>> =>
    new Map((await bucket.entries()).map(({ key, value }) => [key, decodeLinkRecord(value)]));
  const join: Bench['join'] = async (id, worker, epoch = 1) => {
    await instances.put(instanceKey(worker.role, id), leaseOf(id, worker, epoch));
  };
  try {
    await use({ bus, context, links, instances, records, writes, join, probes });
    assert.deepEqual(problems, []);
  } finally {
    await links.stop();
    await bus.close();
    await context.bus.close();
  }
}

const fast = (): Promise<LinkProbe> => Promise.resolve({ bytesPerMs: MIB, latencyMs: 0.5 });

test('a prefill worker that can be a partner is probed before any transfer; others are not', () =>
  withLinks(fast, async ({ join, probes, records }) => {
    await join('p1', pairInfo('prefill', '127.0.0.1:7001'));
    await join('p2', { ...pairInfo('prefill', '127.0.0.1:7002'), model: 'other' });
    await join('p3', { ...pairInfo('prefill', '127.0.0.1:7003'), blockSize: 32 });
    await join('p4', pairInfo('prefill'));
    await join('d2', pairInfo('decode', '127.0.0.1:7005'));
    await until('the record', async () => (await records()).has('p1.d1'));
    const record = (await records()).get('p1.d1');
    assert.deepEqual(
      [record?.source, record?.bytesPerMs, record?.latencyMs, record?.transferProtocol],
      ['probe', MIB, 0.5, 'tcp'],
    );
    assert.deepEqual(new Set(probes.map(({ endpoint }) => endpoint)), new Set(['127.0.0.1:7001']));
    const bytes = probes.map(({ options }) => options.bytes);
    assert.ok(bytes[0]! < MIB && Math.max(...bytes) <= 8 * MIB, bytes.join());
  }));

test('a link of engines that move KV by themselves is open at once and proven by a warm-up, not by a probe', async () => {
  const nixl = (role: WorkerInfo['role'], endpoint?: string): WorkerInfo => {
    const info = pairInfo(role, endpoint);
    return { ...info, transfer: { ...info.transfer!, protocol: 'nixl' } };
  };
  let fail: ((error: Error) => void) | undefined;
  let tries = 0;
  const warmUp: WarmUpLink = () => {
    tries++;
    return tries === 1 ? new Promise((_, reject) => (fail = reject)) : Promise.resolve();
  };
  await withLinks(
    fast,
    async ({ context, join, records }) => {
      await join('p1', nixl('prefill', '127.0.0.1:7001'));
      await until('the record', async () => (await records()).has('p1.d1'));
      await until('probe and first try', async () => {
        return (await records()).get('p1.d1')?.source === 'probe' && fail !== undefined;
      });
      assert.equal((await records()).get('p1.d1')?.isProven, false);
      fail?.(new Error('it took too long'));
      await until('the second try', async () => (await records()).get('p1.d1')?.isProven === true);
      const { failures, transfers, lastFailure } = (await records()).get('p1.d1')!;
      assert.deepEqual([failures, transfers, lastFailure], [0, 0, 'it took too long']);
      assert.deepEqual(context.events, []);
    },
    nixl('decode'),
    warmUp,
  );
});

test('transfers are published at most once a second, all of them counted, and taken back at the end', () =>
  withLinks(fast, async ({ join, links, records, writes }) => {
    await join('p1', pairInfo('prefill', '127.0.0.1:7001'));
    await until('the probe', async () => (await records()).has('p1.d1'));
    for (let key = 1; key <= 50; key++) {
      links.began(key, 'p1');
      links.ended(key, { outcome: 'ok', bytes: 1_000 });
    }
    await until('the last of them', async () => (await records()).get('p1.d1')?.transfers === 50);
    assert.ok((writes.get('p1.d1') ?? 0) <= 4, `${writes.get('p1.d1')} writes`);
    assert.equal((await records()).get('p1.d1')?.bytesTotal, 50_000);
    await links.stop();
    assert.deepEqual([...(await records()).keys()], []);
  }));

test('a peer that leaves takes its record along; one that comes anew is measured anew', () =>
  withLinks(fast, async ({ context, join, links, records, instances, probes }) => {
    await join('p1', pairInfo('prefill', '127.0.0.1:7001'));
    await until('the probe', async () => (await records()).has('p1.d1'));
    links.began(1, 'p1');
    links.ended(1, { outcome: 'ok', bytes: 5 });
    await join('p1', pairInfo('prefill', '127.0.0.1:7009'), 2);
    await until('the probe of the new one', () =>
      probes.some(({ endpoint }) => endpoint === '127.0.0.1:7009'),
    );
    await until('its record', async () => (await records()).get('p1.d1')?.transfers === 0);
    links.began(2, 'p1');
    await instances.delete('prefill.p1');
    await until('no record', async () => !(await records()).has('p1.d1'));
    links.ended(2, { outcome: 'ok', bytes: 5 });
    assert.equal(links.view().length, 0);
    links.began(3, 'p1');
    links.ended(3, { outcome: 'failed', bytes: 0, reason: 'nobody listens there' });
    assert.equal(links.view().length, 0, 'a fetch that came after it left opens no account');
    assert.equal(context.events.at(-1)?.kind, 'kvtransfer.failed');
  }));

test('a peer without room for a probe is asked again, and its link has not failed', async () => {
  let asked = 0;
  const probe = (): Promise<LinkProbe> =>
    asked++ === 0 ? Promise.reject(new AppError('TRANSFER_BUSY', 'full')) : fast();
  await withLinks(probe, async ({ join, records }) => {
    await join('p1', pairInfo('prefill', '127.0.0.1:7001'));
    await until('the record', async () => (await records()).has('p1.d1'));
    const { failures, lastFailure, source } = (await records()).get('p1.d1')!;
    assert.deepEqual([failures, lastFailure, source], [0, undefined, 'probe']);
  });
});

test('a slow link is told once, a failure with its reason, a probe without an answer in the record', async () => {
  const probe = (endpoint: string): Promise<LinkProbe> =>
    endpoint.endsWith('1')
      ? Promise.resolve({ bytesPerMs: 5_000, latencyMs: 1 })
      : Promise.reject(new Error('nobody listens there'));
  await withLinks(probe, async ({ context, join, links, records }) => {
    await join('p1', pairInfo('prefill', '127.0.0.1:7001'));
    await join('p2', pairInfo('prefill', '127.0.0.1:7002'));
    await until('both records', async () => (await records()).size === 2);
    assert.match((await records()).get('p2.d1')?.lastFailure ?? '', /nobody listens/);
    for (const key of [1, 2, 3]) {
      links.began(key, 'p1');
      links.ended(key, { outcome: 'failed', bytes: 10, reason: 'broken pipe' });
    }
    const kinds = context.events.map(({ kind }) => kind).toSorted();
    assert.deepEqual(kinds, ['kvtransfer.failed', 'kvtransfer.slow']);
    const slow = context.events.find(({ kind }) => kind === 'kvtransfer.slow');
    assert.equal(slow?.data['longestMs'], 20_000);
    await until('the count', async () => (await records()).get('p1.d1')?.failures === 3);
    assert.equal((await records()).get('p1.d1')?.lastFailure, 'broken pipe');
  });
});

test('records of decode workers that were killed are swept, young ones and those of the living are not', async () => {
  const bus = new MemoryNetwork().connect();
  const bucket = await bus.bucket('links');
  const put = (decodeWorkerId: string, updatedAt: string): Promise<number> =>
    bucket.put(
      `p.${decodeWorkerId}`,
      encodeLinkRecord({
        protocol: 1,
        prefillWorkerId: 'p',
        decodeWorkerId,
        transferProtocol: 'tcp',
        transfers: 0,
        failures: 0,
        bytesTotal: 0,
        busyMsTotal: 0,
        bytesPerMs: 0,
        latencyMs: 0,
        source: 'none',
        updatedAt,
      }),
    );
  await put('dead', '2026-01-01T00:00:00Z');
  await put('alive', '2026-01-01T00:00:00Z');
  await put('young', '2026-01-01T00:09:30Z');
  const wallMs = Date.parse('2026-01-01T00:10:00Z');
  const instances = await bus.bucket('instances');
  await instances.put('decode.alive', new Uint8Array([1]));
  await instances.put('prefill.dead', new Uint8Array([1]));
  assert.equal(await sweepLinks(bucket, instances, wallMs), 1);
  assert.deepEqual((await bucket.entries()).map(({ key }) => key).toSorted(), [
    'p.alive',
    'p.young',
  ]);
  await bus.close();
});
